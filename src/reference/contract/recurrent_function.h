// The functions of recurrent layers' activations.
#pragma once

#include <cstdint>
#include <string_view>

namespace camshaft::ops {

/// In place; `alpha` and `beta` mean what ONNX's operators say, or nothing.
using RecurrentFunction = void (*)(double* x, int64_t count, double alpha, double beta);

/// The function of an activation of ir/ops/recurrent_activation.h. Throws Error(internal) for an unknown name.
RecurrentFunction recurrent_function(std::string_view name);

}  // namespace camshaft::ops
