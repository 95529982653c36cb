#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Marks matrix products, convolutions and attention of f32, those in regions too, with what the context allows their
/// operands to be rounded to; not with bf16 where PassContext::rules ask another precision of the layer. Backends
/// without such kernels, and the reference evaluation, take them as they are.
void allow_rounding(Graph& graph, const PassContext& context);
inline constexpr Pass allow_rounding_pass = {.name = "allow_rounding", .run = allow_rounding, .needs = {Fact::regions}};

}  // namespace camshaft
