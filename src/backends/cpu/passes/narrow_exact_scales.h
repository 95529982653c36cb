#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Scales of weights of few bits become f16 where that has all of their bits, as quantisers of language models make
/// them: they are a ninth of what a product reads, of 4 bits in blocks of 32, and as f32 a fifth. Those that a refit
/// may replace stay, as others may have more bits.
void narrow_exact_scales(Graph& graph, const PassContext& context);
inline constexpr Pass narrow_exact_scales_pass = {
    .name = "narrow_exact_scales", .run = narrow_exact_scales, .needs = {Fact::regions}};

}  // namespace camshaft
