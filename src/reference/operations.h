// What the evaluation of a node counts as in a budget.
#pragma once

#include "base/budget.h"
#include "ir/graph.h"

namespace camshaft {

/// What evaluating the node takes, in operations of which the reference does some 2·10^10 a second on a thread, or
/// more: those of contractions, 100 for each element that is read or written (25 for each byte, where that is more),
/// and what an operator does beside, as measured: exponentials, comparisons of sorts, taps of windows, texts. What only
/// running tells counts nothing before, and a loop does not count what is inside. An operator counts 2·10^5 at least,
/// some ten times what its call takes: a loop that would never end does after some 10^6 operators, in seconds. So does
/// a body without operators, which would go on for ever otherwise.
double operations_of(const Graph& graph, const Node& node, const SymbolBindings& symbols);

/// The sum of those, of all nodes.
double operations_of(const Graph& graph, const SymbolBindings& symbols);

/// What an operator counts at least, and a body without one.
inline constexpr double least_operations = 2e5;

/// Of a text, or a tensor in a sequence, that is copied.
inline constexpr double operations_of_an_object = 3000;

/// Of a pixel that is read between others.
inline constexpr double operations_of_a_sample = 100;

/// Of an element of a result that noise moves, beside evaluating what it is moved by.
inline constexpr double operations_of_noise = 100;

/// Throws Error(unsupported) that names the layer with the most operations, where one run of the graph on these sizes
/// is more than the budget.
void check_operations(const Graph& graph, const SymbolBindings& symbols, const Budget& budget);

}  // namespace camshaft
