#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Gives readers that share f32 made of 8 bits (a Dequantize, written out) one of their own, which they compute as they
/// read: then nobody writes a tensor of four times the bytes, nor reads it. So it does with each reduction (squeeze and
/// excite behind a quantised convolution), and with elementwise operators that do not meet in one result, where all
/// others compute as they read, too (a residual that is activated as well as added further on).
void repeat_widening(Graph& graph, const PassContext& context);
inline constexpr Pass repeat_widening_pass = {
    .name = "repeat_widening", .run = repeat_widening, .before = {Fact::regions}};

}  // namespace camshaft
