// The activation functions of recurrent layers.
#pragma once

#include <span>
#include <string_view>

namespace camshaft::ops {

/// One of ONNX's activations: relu, tanh, sigmoid, affine, leakyrelu, thresholdedrelu, scaledtanh, hardsigmoid, elu,
/// softsign, softplus.
struct RecurrentActivation {
  std::string_view name;  ///< in lower case
  bool has_alpha = false, has_beta = false;
  double alpha = 0, beta = 0;  ///< the defaults
};

/// All of them.
std::span<const RecurrentActivation> recurrent_activations();
/// Null for an unknown name; `name` is in lower case.
const RecurrentActivation* find_recurrent_activation(std::string_view name);

}  // namespace camshaft::ops
