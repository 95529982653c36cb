// Running passes.
#pragma once

#include "optimize/pass_list.h"

namespace camshaft {

/// Runs passes on a graph, one after another, and removes dead nodes when all have run. The verifier runs after each
/// pass in debug builds or when the context asks for it. The environment variable CAMSHAFT_TRACE=passes prints each
/// pass's time and effect on the number of nodes to stderr. Throws Error(cancelled) between passes.
void run_passes(Graph& graph, const PassList& passes, const PassContext& context);

/// The same, on the branches of the graph's Ifs too. Branches have no chains: nobody tunes them. One with constants on
/// which an operator fails may never be taken: it stays as it is.
void run_passes_with_branches(Graph& graph, const PassList& passes, const PassContext& context);

}  // namespace camshaft
