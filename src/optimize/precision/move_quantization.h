#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Lets steps of one scale go through what only moves or selects elements: a Dequantize before a move, a concatenation
/// or a maximum over windows goes behind it, a Quantize behind one before it, and a Quantize of what a Dequantize with
/// the same parameters gives is nothing. So tensors stay 8 bits wide between layers. For increasing scales the values
/// are the same; a Gather of rows that have scales of their own takes steps and scales. Scales that are no constants,
/// or not positive, are left where they are, and so is a Quantize behind the moves of an attention's result, which its
/// kernel makes.
void move_quantization(Graph& graph, const PassContext& context);
inline constexpr Pass move_quantization_pass = {
    .name = "move_quantization", .run = move_quantization, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
