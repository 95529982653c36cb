#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Gives each reduction that shares f32 made of 8 bits (a Dequantize, written out) with other readers one of its own,
/// which it computes as it reads: then nobody writes a tensor of four times the bytes, nor reads it. Squeeze and excite
/// behind a quantised convolution is the usual case.
void repeat_widening(Graph& graph, const PassContext& context);
inline constexpr Pass repeat_widening_pass = {
    .name = "repeat_widening", .run = repeat_widening, .before = {Fact::regions}};

}  // namespace camshaft
