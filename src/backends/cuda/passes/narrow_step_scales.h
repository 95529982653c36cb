#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Scales of weights of few bits that f16 products read become f16 where that has all of them as normal numbers, or 0:
/// they are an eighth of what such a product reads, of blocks of 32, and as f32 a quarter. Weights of f16 products are
/// rounded as much.
///
/// Runs behind lower_precision, where that is a pass: it decides what is stored in f16.
void narrow_step_scales(Graph& graph, const PassContext& context);
inline constexpr Pass narrow_step_scales_pass = {
    .name = "narrow_step_scales", .run = narrow_step_scales, .needs = {Fact::regions}};

}  // namespace camshaft
