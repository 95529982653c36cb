// What the passes that put neighbours into chains (ops/region.h) have in common.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// Replaces the nodes of each chain by a region of kind chain, whose body has them as its nodes. `chains`: node indices
/// in order, by the last one, which alone gives results to others.
void make_chains(Graph& graph, const std::map<int32_t, std::vector<int32_t>>& chains);

}  // namespace camshaft
