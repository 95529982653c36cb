// Activations as pointwise expressions, for the converters of several groups.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// x · ½(1 + erf(x/√2))
ValueId gelu(ConvertContext& c, ValueId x);
/// x · ½(1 + tanh(√(2/π)(x + 0.044715x³)))
ValueId gelu_tanh(ConvertContext& c, ValueId x);
/// x · sigmoid(alpha·x)
ValueId swish(ConvertContext& c, ValueId x, double alpha);
/// log(1 + eˣ), without overflow
ValueId softplus(ConvertContext& c, ValueId x);

}  // namespace camshaft::onnx
