// Symbols of sizes that turn out to be known.
#pragma once

#include <map>
#include <string>

#include "ir/graph.h"

namespace camshaft {

using SymbolReplacements = std::map<std::string, Dim, std::less<>>;

/// In the recorded types and elements of all values.
void substitute_in_values(Graph& graph, const SymbolReplacements& replacements);
/// In the fields of the node's operator and in everything within its bodies.
void substitute_in_node(Node& node, const SymbolReplacements& replacements);

}  // namespace camshaft
