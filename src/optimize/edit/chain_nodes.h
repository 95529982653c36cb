// What the passes that put neighbours into chains (ops/region.h) have in common.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// The contraction or other operator that a node begins with: itself, or the first one of a contract region's body.
const Node& first_operator(const Node& node);

/// The node's own operand that its first operator has at `input`; no_value when that is none of its operands, or what
/// follows in the region reads it too.
ValueId sole_operand(const Node& node, size_t input);

/// Replaces the nodes of each chain by a region of kind chain, whose body has them as its nodes. `chains`: node indices
/// in order, by the last one, which alone gives a result to others.
void make_chains(Graph& graph, const std::map<int32_t, std::vector<int32_t>>& chains);

}  // namespace camshaft
