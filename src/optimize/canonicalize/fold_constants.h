#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Evaluates nodes whose inputs are all constants (by the reference evaluation), and turns values whose elements are
/// known as expressions of the dims into constants or `dims` nodes, so that shape arithmetic vanishes. Nodes that would
/// blow up small constants into large ones (an Expand, a Range) stay. Bodies are folded too.
void fold_constants(Graph& graph, const PassContext& context);
inline constexpr Pass fold_constants_pass = {.name = "fold_constants", .run = fold_constants};

}  // namespace camshaft
