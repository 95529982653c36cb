// Activations: all are pointwise expressions.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/activations.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// Spells expressions on the dtype of one operand. At most one argument of a call may append nodes: the order in which
// arguments are evaluated is the compiler's choice, the order of nodes must not be.
struct Expression {
  ConvertContext& c;
  DType dtype;
  ValueId operator()(F f, ValueId a) { return c.add(f, {a}); }
  ValueId operator()(F f, ValueId a, ValueId b) { return c.add(f, {a, b}); }
  ValueId operator()(F f, ValueId a, double b) { return c.add(f, {a, number(b)}); }
  ValueId operator()(F f, double a, ValueId b) { return c.add(f, {number(a), b}); }
  ValueId number(double v) { return c.scalar(dtype, v); }
};

Expression expression(ConvertContext& c, ValueId x) {
  return {c, c.dtype(x)};
}

Values relu(ConvertContext& c) {
  const ValueId x = c.input(0);
  return c.result(F::max, {x, c.scalar(c.dtype(x), 0)});
}

// x where positive, else slope·x
Values leaky(ConvertContext& c, ValueId slope) {
  const ValueId x = c.input(0);
  auto e = expression(c, x);
  return c.result(F::select, {e(F::less, x, 0.0), e(F::mul, x, slope), x});
}
Values leaky_relu(ConvertContext& c) {
  return leaky(c, c.scalar(c.dtype(c.input(0)), c.float_attribute("alpha", 0.01)));
}
Values prelu(ConvertContext& c) {
  const ValueId x = c.input(0), slope = c.input(1);
  if (c.opset() > 6 || c.rank(slope) != 1 || c.rank(x) < 2) return leaky(c, slope);
  // Until operator set 6, one slope a channel.
  Shape per_channel(static_cast<size_t>(c.rank(x)) - 1, Dim(1));
  per_channel[0] = c.dim(slope, 0);
  return leaky(c, c.reshape(slope, std::move(per_channel)));
}

// scale·x where positive, else scale·alpha·(e^(x/width) - 1)
Values exponential(ConvertContext& c, double alpha, double scale, double width) {
  const ValueId x = c.input(0);
  auto e = expression(c, x);
  const ValueId exp = e(F::exp, width == 1 ? x : e(F::div, x, width));
  const ValueId below = e(F::mul, e(F::sub, exp, 1.0), alpha * scale);
  return c.result(F::select, {e(F::less, x, 0.0), below, scale == 1 ? x : e(F::mul, x, scale)});
}
Values elu(ConvertContext& c) {
  return exponential(c, c.float_attribute("alpha", 1), 1, 1);
}
Values celu(ConvertContext& c) {
  const double alpha = c.float_attribute("alpha", 1);
  return exponential(c, alpha, 1, alpha);
}
Values selu(ConvertContext& c) {
  return exponential(c, c.float_attribute("alpha", 1.67326319217681884765625F),
                     c.float_attribute("gamma", 1.05070102214813232421875F), 1);
}

Values thresholded_relu(ConvertContext& c) {
  const ValueId x = c.input(0);
  auto e = expression(c, x);
  return c.result(F::select, {e(F::less, c.float_attribute("alpha", 1), x), x, e.number(0)});
}

Values shrink(ConvertContext& c) {
  const DType dtype = c.dtype(c.input(0));
  // The bias of integers may have a fraction, which counts before the result is cut off.
  const ValueId x = c.cast(c.input(0), is_floating(dtype) ? dtype : DType::f64);
  auto e = expression(c, x);
  const double lambd = c.float_attribute("lambd", 0.5), bias = c.float_attribute("bias", 0);
  const ValueId above = c.add(F::select, {e(F::less, lambd, x), e(F::sub, x, bias), e.number(0)});
  const ValueId below = e(F::less, x, -lambd), shifted = e(F::add, x, bias);
  if (c.dtype(x) == dtype) return c.result(F::select, {below, shifted, above});
  return c.result(ops::Cast{dtype}, {c.add(F::select, {below, shifted, above})});
}

ValueId hard_sigmoid(ConvertContext& c, double alpha, double beta) {
  const ValueId x = c.input(0);
  auto e = expression(c, x);
  return e(F::min, e(F::max, e(F::add, e(F::mul, x, alpha), beta), 0.0), 1.0);
}
Values hard_sigmoid(ConvertContext& c) {
  return {hard_sigmoid(c, c.float_attribute("alpha", 0.2F), c.float_attribute("beta", 0.5))};
}
Values hard_swish(ConvertContext& c) {
  return c.result(F::mul, {c.input(0), hard_sigmoid(c, 1.0 / 6, 0.5)});
}

Values sigmoid(ConvertContext& c) {
  return c.result(F::sigmoid, {c.input(0)});
}
Values tanh(ConvertContext& c) {
  return c.result(F::tanh, {c.input(0)});
}
Values softplus(ConvertContext& c) {
  return {softplus(c, c.input(0))};
}
Values softsign(ConvertContext& c) {
  const ValueId x = c.input(0);
  auto e = expression(c, x);
  return c.result(F::div, {x, e(F::add, e(F::abs, x), 1.0)});
}
Values mish(ConvertContext& c) {
  const ValueId x = c.input(0);
  return c.result(F::mul, {x, c.add(F::tanh, {softplus(c, x)})});
}
Values gelu(ConvertContext& c) {
  const std::string approximate = c.string_attribute("approximate", "none");
  if (approximate == "none") return {gelu(c, c.input(0))};
  if (approximate == "tanh") return {gelu_tanh(c, c.input(0))};
  c.invalid(fmt::format("approximate '{}' is unknown", approximate));
}
Values swish(ConvertContext& c) {
  return {swish(c, c.input(0), c.float_attribute("alpha", 1))};
}

// Bounds were attributes until operator set 11.
Values clip(ConvertContext& c) {
  const ValueId x = c.input(0);
  ValueId low = c.input_or_none(1), high = c.input_or_none(2);
  if (c.has_attribute("min")) low = c.scalar(c.dtype(x), c.float_attribute("min"));
  if (c.has_attribute("max")) high = c.scalar(c.dtype(x), c.float_attribute("max"));
  if (low == no_value && high == no_value) return {x};
  if (high == no_value) return c.result(F::max, {x, low});
  return c.result(F::min, {low == no_value ? x : c.add(F::max, {x, low}), high});
}

// Before operator set 13, all axes from `axis` on count as one.
Values softmax(ConvertContext& c, bool log) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  if (c.opset() >= 13) return c.result(ops::Softmax{c.axis(c.int_attribute("axis", -1), rank), log}, {x});
  const int64_t axis = c.axis(c.int_attribute("axis", 1), rank);
  const Shape shape = c.shape(x);
  if (product(shape, axis + 1, rank) == Dim(1)) return c.result(ops::Softmax{axis, log}, {x});
  const ValueId flat = c.reshape(x, {product(shape, 0, axis), product(shape, axis, rank)});
  return c.result(ops::Reshape{shape}, {c.add(ops::Softmax{1, log}, {flat})});
}
Values softmax(ConvertContext& c) {
  return softmax(c, false);
}
Values log_softmax(ConvertContext& c) {
  return softmax(c, true);
}

constexpr Converter activation_table[] = {
    {"Celu", celu},
    {"Clip", clip},
    {"Elu", elu},
    {"Gelu", gelu},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"LeakyRelu", leaky_relu},
    {"LogSoftmax", log_softmax},
    {"Mish", mish},
    {"PRelu", prelu},
    {"Relu", relu},
    {"Selu", selu},
    {"Shrink", shrink},
    {"Sigmoid", sigmoid},
    {"Softmax", softmax},
    {"Softplus", softplus},
    {"Softsign", softsign},
    {"Swish", swish},
    {"Tanh", tanh},
    {"ThresholdedRelu", thresholded_relu},
};

}  // namespace

ValueId gelu(ConvertContext& c, ValueId x) {
  auto e = expression(c, x);
  const ValueId half = e(F::mul, x, 0.5);
  const ValueId erf = e(F::erf, e(F::mul, x, 1 / std::numbers::sqrt2));
  return e(F::mul, half, e(F::add, erf, 1.0));
}

ValueId gelu_tanh(ConvertContext& c, ValueId x) {
  auto e = expression(c, x);
  const ValueId half = e(F::mul, x, 0.5);
  const ValueId cube = e(F::mul, e(F::mul, x, x), x);
  const ValueId inner = e(F::mul, e(F::add, e(F::mul, cube, 0.044715), x), std::sqrt(2 / std::numbers::pi));
  return e(F::mul, half, e(F::add, e(F::tanh, inner), 1.0));
}

ValueId swish(ConvertContext& c, ValueId x, double alpha) {
  auto e = expression(c, x);
  return e(F::mul, x, e(F::sigmoid, alpha == 1 ? x : e(F::mul, x, alpha)));
}

ValueId softplus(ConvertContext& c, ValueId x) {
  auto e = expression(c, x);
  const ValueId positive = e(F::max, x, 0.0);
  return e(F::add, positive, e(F::log1p, e(F::exp, e(F::neg, e(F::abs, x)))));
}

std::span<const Converter> activation_converters() {
  return activation_table;
}

}  // namespace camshaft::onnx
