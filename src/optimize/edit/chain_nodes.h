// What the passes that put neighbours into chains (ops/region.h) have in common.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// Replaces the nodes of each chain by a region of kind chain, whose body has them as its nodes. `chains`: node indices
/// in order, by the last one, in whose place the region stands. Its results are those of the last node, and of the
/// others what nodes behind it, or the graph, read.
void make_chains(Graph& graph, const std::map<int32_t, std::vector<int32_t>>& chains);

}  // namespace camshaft
