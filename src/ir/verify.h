// The graph verifier.
#pragma once

#include "ir/graph.h"

namespace camshaft {

/// Checks every invariant of a graph: ids in range, names of values and of outputs unique, nodes in topological order,
/// each value defined once, shape rules re-run and equal to the recorded types and elements, constants of the recorded
/// type, no negative sizes, bodies verified too.
/// Throws Error(internal) naming the node. `after` says who is to blame, e.g. "pass fold_constants".
void verify(const Graph& graph, const std::string& after);

}  // namespace camshaft
