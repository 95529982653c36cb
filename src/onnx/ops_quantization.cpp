// Quantisation, and products of quantised tensors.
#include <fmt/format.h>

#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "onnx/converters.h"
#include "onnx/onnx_dtype.h"
#include "onnx/quantization.h"
#include "onnx/quantized_product.h"

namespace camshaft::onnx {

namespace {

std::optional<DType> dtype_attribute(ConvertContext& c, std::string_view name) {
  const int64_t value = c.int_attribute(name, 0);
  if (value == 0) return std::nullopt;
  return dtype_from_onnx(static_cast<int32_t>(value), fmt::format("attribute '{}'", name));
}

// The axis of parameters; one of the whole tensor has none, whatever `axis` says.
int64_t axis_of_parameters(ConvertContext& c, ValueId x) {
  const auto is_one = [&](size_t i) {
    return !c.has(i) || c.rank(c.input(i)) == 0 || (c.rank(c.input(i)) == 1 && c.dim(c.input(i), 0) == Dim(1));
  };
  if (is_one(1) && is_one(2)) return 0;
  return c.rank(x) == 1 ? 0 : c.axis(c.int_attribute("axis", 1), c.rank(x));
}

Values quantize_linear(ConvertContext& c) {
  const ValueId x = c.input(0), scale = c.input(1);
  ops::Quantize op;
  op.dtype = dtype_attribute(c, "output_dtype").value_or(c.has(2) ? c.dtype(c.input(2)) : DType::u8);
  if (c.has(2) && c.dtype(c.input(2)) != op.dtype)
    c.invalid(
        fmt::format("the zero point is {}, output_dtype {}", to_string(c.dtype(c.input(2))), to_string(op.dtype)));
  op.axis = axis_of_parameters(c, x);
  op.block = block_size(c, scale, x, op.axis, c.int_attribute("block_size", 0));
  // The quotient has the scale's precision; a scale that is a bare exponent or an integer says nothing about it.
  op.precision = c.dtype(scale);
  if (const auto wanted = dtype_attribute(c, "precision")) op.precision = *wanted;
  if (op.precision == DType::f8e8m0) op.precision = c.dtype(x);
  if (!is_floating(op.precision)) op.precision = DType::f32;
  op.saturate = c.int_attribute("saturate", 1) != 0;
  return {quantize(c, 0, op, x, scale, c.input_or_none(2))};
}

Values dequantize_linear(ConvertContext& c) {
  const ValueId x = c.input(0), scale = c.input(1);
  if (c.dtype(x) == DType::f32) c.invalid("f32 is no quantised type");
  const DType otherwise = c.dtype(scale) == DType::f8e8m0 ? DType::f32 : c.dtype(scale);
  const int64_t axis = axis_of_parameters(c, x);
  const int64_t block = block_size(c, scale, x, axis, c.int_attribute("block_size", 0));
  return {
      dequantize(c, x, scale, c.input_or_none(2), dtype_attribute(c, "output_dtype").value_or(otherwise), axis, block)};
}

Values dynamic_quantize_linear(ConvertContext& c) {
  return c.results(ops::DynamicQuantize{}, {c.input(0)}, {});
}

Values matmul_integer(ConvertContext& c) {
  return {integer_matmul(c, c.input(0), c.input_or_none(2), c.input(1), c.input_or_none(3))};
}

Values conv_integer(ConvertContext& c) {
  return {integer_conv(c, c.input(0), c.input_or_none(2), c.input(1), c.input_or_none(3), no_value)};
}

Values qlinear_matmul(ConvertContext& c) {
  const ValueId a = c.input(0), b = c.input(3);
  const ValueId sum = integer_matmul(c, a, c.input(2), b, c.input(5));
  const ValueId steps = to_steps(c, sum, row_parameter(c, c.input(1), a), column_parameter(c, c.input(4), b),
                                 row_parameter(c, c.input(6), a));
  return {round_steps(c, 0, steps, row_parameter(c, c.input(7), a), c.dtype(c.input(7)))};
}

Values qlinear_conv(ConvertContext& c) {
  return {round_steps(c, 0, qlinear_conv_steps(c, c.input(0)), c.input_or_none(7), c.dtype(c.input(c.has(7) ? 7 : 0)))};
}

constexpr Converter quantization_table[] = {
    {"ConvInteger", conv_integer},
    {"DequantizeLinear", dequantize_linear},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"MatMulInteger", matmul_integer},
    {"QLinearConv", qlinear_conv},
    {"QLinearMatMul", qlinear_matmul},
    {"QuantizeLinear", quantize_linear},
};

}  // namespace

std::span<const Converter> quantization_converters() {
  return quantization_table;
}

}  // namespace camshaft::onnx
