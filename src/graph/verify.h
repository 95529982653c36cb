// The graph verifier.
#pragma once

#include "graph/graph.h"

namespace camshaft {

/// Checks every invariant of a graph: ids in range, names unique, nodes in topological order, each value defined once,
/// shape rules re-run and equal to the recorded types, constants of the recorded type, bodies closed and verified too.
/// Throws Error(internal) naming the node. `after` says who is to blame, e.g. "pass fold_constants".
void verify(const Graph& graph, const std::string& after);

}  // namespace camshaft
