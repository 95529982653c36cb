#pragma once

#include "optimize/pass.h"

namespace camshaft {

/// Writes each Quantize, Dequantize and RoundBlocks, those in bodies too, as the pointwise operators that compute the
/// same, scales and zero points reshaped and repeated until they broadcast: afterwards constant weights fold to real
/// numbers and what is left fuses. Passes that want the two operators, or constants as narrow as the model has them,
/// run before.
void expand_quantization(Graph& graph, const PassContext& context);
inline constexpr Pass expand_quantization_pass = {
    .name = "expand_quantization", .run = expand_quantization, .before = {Fact::layouts, Fact::regions}};

}  // namespace camshaft
