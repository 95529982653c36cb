// Operators of the domain com.microsoft on quantised activations, which ONNX Runtime's quantiser and optimiser write.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
//
// Where the sums are of integers they are exact; everything else is computed in f32 between a dequantisation and a
// quantisation.
#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/axis_order.h"
#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/converters.h"
#include "onnx/quantization.h"
#include "onnx/quantized_product.h"
#include "onnx/spatial.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// A scale or zero point of the whole tensor.
ValueId number(ConvertContext& c, size_t i) {
  const ValueId id = c.input(i);
  if (c.rank(id) > 1 || (c.rank(id) == 1 && c.dim(id, 0).is_constant() && c.dim(id, 0) != Dim(1)))
    c.invalid(fmt::format("input {} must be one number, not {}", i, to_string(c.graph().type(id))));
  return c.reshape(id, {});
}
ValueId number_or_none(ConvertContext& c, size_t i) {
  return c.has(i) ? number(c, i) : no_value;
}

// Input i, of which the scale is input i + 1 and the zero point input i + 2, in f32.
ValueId dequantized_input(ConvertContext& c, size_t i) {
  return dequantize(c, c.input(i), number(c, i + 1), number_or_none(c, i + 2));
}

// Output 0 of the node out of f32 and the inputs `scale` and `scale` + 1. Without a zero point it has the dtype of
// input `like`.
Values quantized(ConvertContext& c, ValueId value, size_t scale, size_t like) {
  const ValueId zero = number_or_none(c, scale + 1);
  const DType to = c.dtype(zero == no_value ? c.input(like) : zero);
  return {quantize(c, 0, {.dtype = to}, value, number(c, scale), zero)};
}

template <F function>
Values quantized_binary(ConvertContext& c) {
  return quantized(c, c.add(function, {dequantized_input(c, 0), dequantized_input(c, 3)}), 6, 0);
}

Values quantized_sigmoid(ConvertContext& c) {
  return quantized(c, c.add(F::sigmoid, {dequantized_input(c, 0)}), 3, 0);
}

Values quantized_leaky_relu(ConvertContext& c) {
  const ValueId x = dequantized_input(c, 0);
  const ValueId scaled = c.add(F::mul, {x, c.scalar(DType::f32, c.float_attribute("alpha", 0.01F))});
  const ValueId negative = c.add(F::less, {x, c.scalar(DType::f32, 0)});
  return quantized(c, c.add(F::select, {negative, scaled, x}), 3, 0);
}

Values quantized_softmax(ConvertContext& c) {
  const ValueId x = dequantized_input(c, 0);
  const Shape shape = c.shape(x);
  const int64_t axis = c.axis(c.int_attribute("axis", -1), c.rank(x));
  if (c.int_attribute("opset") >= 13) return quantized(c, c.add(ops::Softmax{axis, false}, {x}), 3, 0);
  const ValueId matrix = c.reshape(x, {product(shape, 0, axis), product(shape, axis, c.rank(x))});
  return quantized(c, c.reshape(c.add(ops::Softmax{1, false}, {matrix}), shape), 3, 0);
}

Values reduce_mean(ConvertContext& c) {
  const ValueId x = dequantized_input(c, 0);
  std::vector<int64_t> axes;
  if (const auto given = c.ints_attribute("axes"); given && !given->empty()) {
    axes = c.axes(*given, c.rank(x));
  } else {
    for (int64_t i = 0; i < c.rank(x); ++i) axes.push_back(i);
  }
  std::sort(axes.begin(), axes.end());
  const bool keep = c.int_attribute("keepdims", 1) != 0;
  return quantized(c, c.add(ops::Reduce{ops::ReduceKind::mean, axes, keep}, {x}), 3, 0);
}

Values quantized_where(ConvertContext& c) {
  const ValueId x = dequantized_input(c, 1), y = dequantized_input(c, 4);
  return quantized(c, c.add(F::select, {c.input(0), x, y}), 7, 1);
}

Values quantized_concat(ConvertContext& c) {
  if (c.input_count() < 5 || c.input_count() % 3 != 2)
    c.invalid(fmt::format("it has {} inputs: two of the output, then three for each tensor", c.input_count()));
  Values parts;
  for (size_t i = 2; i < c.input_count(); i += 3) parts.push_back(dequantized_input(c, i));
  const int64_t axis = c.axis(c.int_attribute("axis"), c.rank(parts[0]));
  return quantized(c, c.add(ops::Concat{axis}, std::move(parts)), 0, 2);
}

// x as [n, c, spatial...] when it comes as [n, spatial..., c], and the way back.
ValueId channels_first(ConvertContext& c, ValueId x, bool comes_last) {
  if (c.rank(x) < 3)
    c.invalid(fmt::format("the input has {} axes; batch, channels and spatial axes are needed", c.rank(x)));
  return comes_last ? c.add(ops::Transpose{ops::inverse(ops::channels_last_order(c.shape(x).size()))}, {x}) : x;
}
ValueId channels_back(ConvertContext& c, ValueId y, bool go_last) {
  return go_last ? c.add(ops::Transpose{ops::channels_last_order(c.shape(y).size())}, {y}) : y;
}

Values quantized_average_pool(ConvertContext& c) {
  const bool last = c.int_attribute("channels_last", 0) != 0;
  const ValueId x = channels_first(c, dequantized_input(c, 0), last);
  Window w = read_window(c, x);
  ops::Pool op{ops::PoolKind::average, w.kernel, w.strides, w.pads, w.dilations};
  op.ceil_mode = c.int_attribute("ceil_mode", 0) != 0;
  op.count_include_pad = c.int_attribute("count_include_pad", 0) != 0;
  return quantized(c, channels_back(c, c.add(std::move(op), {x}), last), 3, 0);
}

Values quantized_global_average_pool(ConvertContext& c) {
  const bool last = c.int_attribute("channels_last", 0) != 0;
  const ValueId x = dequantized_input(c, 0);
  if (c.rank(x) < 3)
    c.invalid(fmt::format("the input has {} axes; batch, channels and spatial axes are needed", c.rank(x)));
  ops::Reduce op{ops::ReduceKind::mean, {}, true};
  for (int64_t i = 2; i < c.rank(x); ++i) op.axes.push_back(last ? i - 1 : i);
  return quantized(c, c.add(std::move(op), {x}), 3, 0);
}

Values microsoft_qlinear_conv(ConvertContext& c) {
  const bool last = c.int_attribute("channels_last", 0) != 0;
  const ValueId steps = qlinear_conv_steps(c, channels_first(c, c.input(0), last));
  return {round_steps(c, 0, channels_back(c, steps, last), c.input_or_none(7), c.dtype(c.input(c.has(7) ? 7 : 0)))};
}

Values nhwc_conv(ConvertContext& c) {
  const ValueId x = channels_first(c, c.input(0), true), weights = c.input(1);
  if (c.rank(x) != c.rank(weights))
    c.invalid(fmt::format("the input has {} axes, the weights {}", c.rank(x), c.rank(weights)));
  std::vector<int64_t> kernel;
  for (int64_t i = 2; i < c.rank(weights); ++i) kernel.push_back(c.static_size(c.dim(weights, i), "the kernel's size"));
  const Window w = read_window(c, x, kernel);
  Values inputs{x, weights};
  if (c.has(2)) inputs.push_back(c.input(2));
  const ops::Conv op{w.strides, w.pads, w.dilations, c.int_attribute("group", 1)};
  return {channels_back(c, c.add(op, std::move(inputs)), true)};
}

Values nhwc_max_pool(ConvertContext& c) {
  const ValueId x = channels_first(c, c.input(0), true);
  Window w = read_window(c, x);
  ops::Pool op{ops::PoolKind::max, w.kernel, w.strides, w.pads, w.dilations};
  op.ceil_mode = c.int_attribute("ceil_mode", 0) != 0;
  return {channels_back(c, c.add(std::move(op), {x}), true)};
}

// The product's scale: one number, or one a column.
ValueId column_scale(ConvertContext& c, ValueId a_scale, ValueId b_scale) {
  return c.add(F::mul, {c.reshape(a_scale, {}), b_scale});
}

// (a - a_zero) · (b - b_zero) · scale + bias
Values scaled_product(ConvertContext& c, ValueId a, ValueId a_scale, ValueId a_zero, ValueId b_scale, ValueId b_zero,
                      ValueId bias) {
  const ValueId b = c.input(1);
  const ValueId sum = c.cast(integer_matmul(c, a, a_zero, b, b_zero), DType::f32);
  const ValueId scale = column_scale(c, a_scale, column_parameter(c, b_scale, b));
  const ValueId product = c.add(F::mul, {sum, scale});
  return {bias == no_value ? product : c.result_at(0, ops::Pointwise{F::add}, {product, bias})};
}

Values matmul_integer_to_float(ConvertContext& c) {
  const ValueId a = c.input(0), b = c.input(1);
  const ValueId sum = c.cast(integer_matmul(c, a, c.input_or_none(4), b, c.input_or_none(5)), DType::f32);
  const ValueId scale = c.add(F::mul, {row_parameter(c, c.input(2), a), column_parameter(c, c.input(3), b)});
  const DType to = c.dtype(c.input(2));
  const ValueId product = c.add(F::mul, {sum, c.cast(scale, DType::f32)});
  if (!c.has(6)) return {c.cast(product, to)};
  return {c.cast(c.add(F::add, {product, c.cast(c.input(6), DType::f32)}), to)};
}

Values dynamic_quantize_matmul(ConvertContext& c) {
  const DynamicQuantization q = quantize_dynamically(c, c.input(0));
  return scaled_product(c, q.steps, q.scale, q.zero_point, c.input(2), c.input_or_none(3), c.input_or_none(4));
}

Values qgemm(ConvertContext& c) {
  ValueId a = c.input(0), b = c.input(3);
  if (c.rank(a) != 2 || c.rank(b) != 2) c.invalid(fmt::format("A has {} axes and B {}, not 2", c.rank(a), c.rank(b)));
  if (c.int_attribute("transA", 0) != 0) a = c.add(ops::Transpose{{1, 0}}, {a});
  if (c.int_attribute("transB", 0) != 0) b = c.add(ops::Transpose{{1, 0}}, {b});
  ValueId sum = integer_matmul(c, a, number_or_none(c, 2), b, c.input_or_none(5));
  if (c.has(6)) sum = c.add(F::add, {sum, c.input(6)});
  const ValueId alpha = c.scalar(DType::f32, c.float_attribute("alpha", 1));
  const ValueId a_scale = c.add(F::mul, {alpha, number(c, 1)});
  const ValueId scale = c.add(F::mul, {a_scale, column_parameter(c, c.input(4), b)});
  if (!c.has(7)) return c.result(F::mul, {c.cast(sum, DType::f32), scale});
  const ValueId steps = c.add(F::mul, {c.cast(sum, DType::f32), c.add(F::div, {scale, number(c, 7)})});
  return {round_steps(c, 0, steps, number_or_none(c, 8), c.dtype(c.input(c.has(8) ? 8 : 0)))};
}

// As in the default domain since operator set 13, but 16-bit and 4-bit types came here first. A scalar scale is of the
// whole tensor whatever `axis` says.
int64_t parameter_axis(ConvertContext& c) {
  const bool one = c.rank(parameter_of(c, c.input(1))) == 0 && (!c.has(2) || c.rank(parameter_of(c, c.input(2))) == 0);
  return one ? 0 : c.axis(c.int_attribute("axis", 1), c.rank(c.input(0)));
}
Values microsoft_quantize_linear(ConvertContext& c) {
  const int64_t axis = parameter_axis(c), block = block_size(c, c.input(1), c.input(0), axis, 0);
  const ops::Quantize op{.dtype = c.has(2) ? c.dtype(c.input(2)) : DType::u8, .axis = axis, .block = block};
  return {quantize(c, 0, op, c.input(0), c.input(1), c.input_or_none(2))};
}
Values microsoft_dequantize_linear(ConvertContext& c) {
  const int64_t axis = parameter_axis(c), block = block_size(c, c.input(1), c.input(0), axis, 0);
  return {dequantize(c, c.input(0), c.input(1), c.input_or_none(2), c.dtype(c.input(1)), axis, block)};
}

constexpr Converter microsoft_quantized_table[] = {
    {"DequantizeLinear", microsoft_dequantize_linear},
    {"DynamicQuantizeMatMul", dynamic_quantize_matmul},
    {"MatMulIntegerToFloat", matmul_integer_to_float},
    {"NhwcConv", nhwc_conv},
    {"NhwcMaxPool", nhwc_max_pool},
    {"QGemm", qgemm},
    {"QLinearAdd", quantized_binary<F::add>},
    {"QLinearAveragePool", quantized_average_pool},
    {"QLinearConcat", quantized_concat},
    {"QLinearConv", microsoft_qlinear_conv},
    {"QLinearGlobalAveragePool", quantized_global_average_pool},
    {"QLinearLeakyRelu", quantized_leaky_relu},
    {"QLinearMul", quantized_binary<F::mul>},
    {"QLinearReduceMean", reduce_mean},
    {"QLinearSigmoid", quantized_sigmoid},
    {"QLinearSoftmax", quantized_softmax},
    {"QLinearWhere", quantized_where},
    {"QuantizeLinear", microsoft_quantize_linear},
};

}  // namespace

std::span<const Converter> microsoft_quantized_converters() {
  return microsoft_quantized_table;
}

}  // namespace camshaft::onnx
