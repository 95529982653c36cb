#include "ir/ops/recurrent_activation.h"

#include <algorithm>

namespace camshaft::ops {

namespace {

// The defaults are those of ONNX's operators of these names; Affine and ScaledTanh, which are operators no more, are
// the identity and tanh.
constexpr RecurrentActivation activation_table[] = {
    {"affine", true, true, 1, 0},           {"elu", true, false, 1, 0},
    {"hardsigmoid", true, true, 0.2, 0.5},  {"leakyrelu", true, false, 0.01, 0},
    {"relu", false, false, 0, 0},           {"scaledtanh", true, true, 1, 1},
    {"sigmoid", false, false, 0, 0},        {"softplus", false, false, 0, 0},
    {"softsign", false, false, 0, 0},       {"tanh", false, false, 0, 0},
    {"thresholdedrelu", true, false, 1, 0},
};

}  // namespace

std::span<const RecurrentActivation> recurrent_activations() {
  return activation_table;
}

const RecurrentActivation* find_recurrent_activation(std::string_view name) {
  const auto* found = std::find_if(std::begin(activation_table), std::end(activation_table),
                                   [&](const RecurrentActivation& a) { return a.name == name; });
  return found == std::end(activation_table) ? nullptr : found;
}

}  // namespace camshaft::ops
