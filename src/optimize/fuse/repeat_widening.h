#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Gives each reduction that shares f32 made of 8 bits (a Dequantize, written out) with other readers one of its own,
/// which it computes as it reads: then nobody writes a tensor of four times the bytes, nor reads it. Squeeze and excite
/// behind a quantised convolution is the usual case.
void repeat_widening(Graph& graph, const PassContext& context);
inline constexpr Pass repeat_widening_pass = {
    .name = "repeat_widening", .run = repeat_widening, .before = {Fact::regions}};

/// Does so with residuals that are added behind products of bytes, whose epilogues compute them as they read, where all
/// other readers of the f32 do, too: what is activated for the next layer and added further on (networks that activate
/// before they multiply) is stored in 8 bits.
void repeat_residual_widening(Graph& graph, const PassContext& context);
inline constexpr Pass repeat_residual_widening_pass = {
    .name = "repeat_residual_widening", .run = repeat_residual_widening, .before = {Fact::regions}};

}  // namespace camshaft
