#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// A sum or mean along the axis that up to four tensors were stacked along, also of what pointwise operators make of
/// the stack, becomes pointwise operators on the tensors: no stack is built, and what is left fuses with what computes
/// them. Selective kernels and split attention are written so: `(stack([a, b], 1) * weights).sum(1)`.
void unstack_reductions(Graph& graph, const PassContext& context);
inline constexpr Pass unstack_reductions_pass = {
    .name = "unstack_reductions", .run = unstack_reductions, .before = {Fact::regions}};

}  // namespace camshaft
