// Concatenations and slices that need no copy.
#pragma once

#include "compile/plan/plan.h"
#include "ir/graph.h"

namespace camshaft {

/// Makes operands of concatenations slices of the result, so that they are computed in place, and slices of a tensor
/// parts of it. A value becomes a slice only if every kernel that writes or reads it takes slices
/// (Kernel::reads_slices, writes_slices; rows that stay dense need not be asked for), its sizes are known before
/// running, it is no output of the graph, and the memory alive at any step does not grow beyond today's peak at the
/// sizes `symbols`: a part of a concatenation keeps the whole alive. What is invariant (find_invariant_steps()) is no
/// part of what is not, which is written in each run.
///
/// Steps of slices are removed. Steps of concatenations stay, and copy the operands that do not lie there already.
/// Run before graph outputs get their storage.
void place_slices(Plan& plan, const Graph& graph, const SymbolBindings& symbols);

}  // namespace camshaft
