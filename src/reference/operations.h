// What the evaluation of a node counts as in a budget.
#pragma once

#include "ir/graph.h"

namespace camshaft {

/// Operations of contractions and of pooling windows, and four for each byte of the operands. What only running tells
/// counts nothing, and a loop does not count what is inside. An operator counts 10^7 at least, some ten times what its
/// call takes: that ends a loop which would never end after some 10^7 operators, half a minute.
double operations_of(const Graph& graph, const Node& node, const SymbolBindings& symbols);

}  // namespace camshaft
