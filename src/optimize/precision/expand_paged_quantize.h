#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Writes each PagedQuantize as what it computes: scales, Quantize, and a PagedStore of either. For the judge of an
/// engine, who asks which numbers are near an edge between two steps; backends have a kernel for the whole.
void expand_paged_quantize(Graph& graph, const PassContext& context);

}  // namespace camshaft
