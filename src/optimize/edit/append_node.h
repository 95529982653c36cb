// Nodes of one graph copied into another, as passes do that make a region's body anew.
#pragma once

#include <map>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// Appends a node of `from` to `to`, under the same names. `there` has the value of `to` for each of `from` that the
/// node reads; constants that are not in it yet are added, and so is what the node computes. Returns its outputs.
std::vector<ValueId> append_node(const Graph& from, const Node& node, Graph& to, std::map<ValueId, ValueId>& there);

}  // namespace camshaft
