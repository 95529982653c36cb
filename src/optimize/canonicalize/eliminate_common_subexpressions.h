#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Computes once what several nodes compute: equal operators on equal values, and equal constants. Nodes with bodies
/// and those whose sizes depend on data are left alone.
void eliminate_common_subexpressions(Graph& graph, const PassContext& context);
inline constexpr Pass eliminate_common_subexpressions_pass = {.name = "eliminate_common_subexpressions",
                                                              .run = eliminate_common_subexpressions};

}  // namespace camshaft
