#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// widen_narrow_floats() of a model that quantises f16 or bf16 activations, for backends that have kernels for these: their passes know
/// Quantize and Dequantize of f32, and lower_precision makes what passes between layers f16 again where that is allowed.
/// Other models stay as they are.
void widen_quantized_halves(Graph& graph, const PassContext& context);
inline constexpr Pass widen_quantized_halves_pass = {
    .name = "widen_quantized_halves", .run = widen_quantized_halves, .before = {Fact::regions}};

}  // namespace camshaft
