// Regions as their readers see them: what a value of the body is around it, and what a region begins with.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// Which input of a body one of its values is, and so which operand of the region; -1 where it is none.
int32_t input_index(const Graph& body, ValueId inner);

/// The value around a region that a value of its body is: one of the node's operands; no_value where the body computes
/// it or holds it as a constant. The values that any other node reads are the graph's: it gives back `inner`.
ValueId outer_operand(const Node& node, ValueId inner);

/// Whether the node has the value among its operands.
bool reads(const Node& node, ValueId id);

/// The contraction or other operator that a node begins with: itself, or the first one of a contract region's body.
const Node& first_operator(const Node& node);

/// The node's own operand that its first operator has at `input`; no_value when that is none of its operands, or what
/// follows in the region reads it too.
ValueId sole_operand(const Node& node, size_t input);

/// The nodes of a region's body as nodes of the graph around it. `add_value` makes the graph's value of one that the
/// body alone has: a constant, or what one node computes for the next.
std::vector<Node> open_region(const Node& region, const std::function<ValueId(const Value& inner)>& add_value);

}  // namespace camshaft
