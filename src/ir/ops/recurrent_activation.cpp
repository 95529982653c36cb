#include "ir/ops/recurrent_activation.h"

#include <algorithm>
#include <cmath>

namespace camshaft::ops {

namespace {

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// A third of the time of std::tanh. Near 0 the difference would cancel, and three terms of the series are exact to
// 1e-19.
double fast_tanh(double x) {
  const double size = std::abs(x);
  if (size < 1e-3) return x - x * x * x * (1.0 / 3 - x * x * (2.0 / 15));
  const double e = std::exp(-2 * size);
  return std::copysign((1 - e) / (1 + e), x);
}

template <double function(double x, double alpha, double beta)>
void each(double* x, int64_t count, double alpha, double beta) {
  for (int64_t i = 0; i < count; ++i) x[i] = function(x[i], alpha, beta);
}

double affine(double x, double alpha, double beta) {
  return alpha * x + beta;
}
double elu(double x, double alpha, double) {
  return x >= 0 ? x : alpha * std::expm1(x);
}
double hard_sigmoid(double x, double alpha, double beta) {
  const double y = alpha * x + beta;
  return y < 0 ? 0 : y > 1 ? 1 : y;
}
double leaky_relu(double x, double alpha, double) {
  return x >= 0 ? x : alpha * x;
}
double relu(double x, double, double) {
  return x < 0 ? 0 : x;
}
double scaled_tanh(double x, double alpha, double beta) {
  return alpha * fast_tanh(beta * x);
}
double sigmoid(double x, double, double) {
  return sigmoid(x);
}
double softplus(double x, double, double) {
  return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::abs(x)));
}
double softsign(double x, double, double) {
  return x / (1 + std::abs(x));
}
double tanh(double x, double, double) {
  return fast_tanh(x);
}
double thresholded_relu(double x, double alpha, double) {
  return x < alpha ? 0 : x;
}

// The defaults are those of ONNX's operators of these names; Affine and ScaledTanh, which are operators no more, are
// the identity and tanh.
constexpr RecurrentActivation table[] = {
    {"affine", true, true, 1, 0, each<affine>},
    {"elu", true, false, 1, 0, each<elu>},
    {"hardsigmoid", true, true, 0.2, 0.5, each<hard_sigmoid>},
    {"leakyrelu", true, false, 0.01, 0, each<leaky_relu>},
    {"relu", false, false, 0, 0, each<relu>},
    {"scaledtanh", true, true, 1, 1, each<scaled_tanh>},
    {"sigmoid", false, false, 0, 0, each<sigmoid>},
    {"softplus", false, false, 0, 0, each<softplus>},
    {"softsign", false, false, 0, 0, each<softsign>},
    {"tanh", false, false, 0, 0, each<tanh>},
    {"thresholdedrelu", true, false, 1, 0, each<thresholded_relu>},
};

}  // namespace

const RecurrentActivation* find_recurrent_activation(std::string_view name) {
  const auto* found =
      std::find_if(std::begin(table), std::end(table), [&](const RecurrentActivation& a) { return a.name == name; });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace camshaft::ops
