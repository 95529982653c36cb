#include "onnx/quantized_product.h"

#include <fmt/format.h>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/ops/shape_rules.h"
#include "onnx/matmul.h"
#include "onnx/quantization.h"
#include "onnx/spatial.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

bool is_one_number(ConvertContext& c, ValueId parameter) {
  return c.rank(parameter) == 0 || (c.rank(parameter) == 1 && c.dim(parameter, 0) == Dim(1));
}

// What ops::IntegerMatMul and IntegerConv take.
bool is_byte_operand(ConvertContext& c, ValueId x, ValueId zero) {
  const bool is_byte = c.dtype(x) == DType::i8 || c.dtype(x) == DType::u8;
  return is_byte && (zero == no_value || c.dtype(zero) == c.dtype(x));
}

void check_count(ConvertContext& c, ValueId parameter, const Dim& wanted, std::string_view what) {
  if (ops::provably_different(c.dim(parameter, 0), wanted))
    c.invalid(
        fmt::format("a scale or zero point has {} elements for {} {}", c.dim(parameter, 0).str(), wanted.str(), what));
}

}  // namespace

ValueId row_parameter(ConvertContext& c, ValueId parameter, ValueId a) {
  if (is_one_number(c, parameter)) return c.reshape(parameter, {});
  if (c.rank(parameter) != 1) return parameter;
  if (c.rank(a) < 2) c.invalid("a vector as left operand has one scale and zero point");
  check_count(c, parameter, c.dim(a, c.rank(a) - 2), "rows");
  return c.reshape(parameter, {c.dim(parameter, 0), 1});
}

ValueId column_parameter(ConvertContext& c, ValueId parameter, ValueId b) {
  if (is_one_number(c, parameter)) return c.reshape(parameter, {});
  if (c.rank(parameter) != 1) return parameter;
  if (c.rank(b) < 2) c.invalid("a vector as right operand has one scale and zero point");
  check_count(c, parameter, c.dim(b, c.rank(b) - 1), "columns");
  return parameter;
}

ValueId channel_parameter(ConvertContext& c, ValueId parameter, ValueId weights) {
  if (is_one_number(c, parameter)) return c.reshape(parameter, {});
  if (c.rank(parameter) != 1)
    c.invalid(fmt::format("a scale or zero point of the weights has {} axes, not 0 or 1", c.rank(parameter)));
  check_count(c, parameter, c.dim(weights, 0), "output channels");
  Shape shape(static_cast<size_t>(c.rank(weights)) - 1, Dim(1));
  shape[0] = c.dim(parameter, 0);
  return c.reshape(parameter, std::move(shape));
}

ValueId integer_matmul(ConvertContext& c, ValueId a, ValueId a_zero, ValueId b, ValueId b_zero) {
  if (a_zero != no_value) a_zero = row_parameter(c, a_zero, a);
  if (b_zero != no_value) b_zero = column_parameter(c, b_zero, b);
  const auto one_along = [&](ValueId zero, int64_t axis_from_end) {
    return zero == no_value || c.rank(zero) < axis_from_end || c.dim(zero, c.rank(zero) - axis_from_end) == Dim(1);
  };
  if (is_byte_operand(c, a, a_zero) && is_byte_operand(c, b, b_zero) && one_along(a_zero, 1) && one_along(b_zero, 2))
    return inner_matmul(c, ops::IntegerMatMul{}, {a, b, a_zero, b_zero});
  return inner_matmul(c, ops::MatMul{}, {shifted(c, a, a_zero), shifted(c, b, b_zero)});
}

ValueId integer_conv(ConvertContext& c, ValueId x, ValueId x_zero, ValueId weights, ValueId weights_zero,
                     ValueId bias) {
  const int64_t rank = c.rank(weights);
  if (c.rank(x) != rank) c.invalid(fmt::format("the input has {} axes, the weights {}", c.rank(x), rank));
  std::vector<int64_t> kernel;
  for (int64_t i = 2; i < rank; ++i) kernel.push_back(c.static_size(c.dim(weights, i), "the kernel's size"));
  const Window w = read_window(c, x, kernel);
  if (x_zero != no_value && !is_one_number(c, x_zero)) c.invalid("the zero point of the input is one number");
  if (x_zero != no_value) x_zero = c.reshape(x_zero, {});
  const int64_t groups = c.int_attribute("group", 1);
  if (is_byte_operand(c, x, x_zero) && is_byte_operand(c, weights, weights_zero)) {
    if (weights_zero != no_value) channel_parameter(c, weights_zero, weights);  // or throws
    return c.add(ops::IntegerConv{w.strides, w.pads, w.dilations, groups}, {x, weights, x_zero, weights_zero, bias});
  }
  if (weights_zero != no_value && !is_one_number(c, weights_zero)) {
    Shape shape(static_cast<size_t>(rank), Dim(1));
    shape[0] = c.dim(channel_parameter(c, weights_zero, weights), 0);
    weights_zero = c.reshape(weights_zero, std::move(shape));
  } else if (weights_zero != no_value) {
    weights_zero = c.reshape(weights_zero, {});
  }
  // Padding is with zeros of the shifted input: with the zero point.
  Values inputs{shifted(c, x, x_zero), shifted(c, weights, weights_zero)};
  if (bias != no_value) inputs.push_back(bias);
  return c.add(ops::Conv{w.strides, w.pads, w.dilations, groups}, std::move(inputs));
}

ValueId to_steps(ConvertContext& c, ValueId sum, ValueId a_scale, ValueId b_scale, ValueId y_scale) {
  const auto wide = [&](ValueId scale) { return c.cast(scale, DType::f32); };
  const ValueId scale = c.add(F::div, {c.add(F::mul, {wide(a_scale), wide(b_scale)}), wide(y_scale)});
  return c.add(F::mul, {wide(sum), scale});
}

ValueId qlinear_conv_steps(ConvertContext& c, ValueId x) {
  const ValueId weights = c.input(3);
  const ValueId sum = integer_conv(c, x, c.input_or_none(2), weights, c.input_or_none(5), c.input_or_none(8));
  const auto number = [&](size_t i) {
    if (!is_one_number(c, c.input(i))) c.invalid(fmt::format("input {} is one number", i));
    return c.reshape(c.input(i), {});
  };
  if (c.has(7)) number(7);  // or throws
  return to_steps(c, sum, number(1), channel_parameter(c, c.input(4), weights), number(6));
}

}  // namespace camshaft::onnx
