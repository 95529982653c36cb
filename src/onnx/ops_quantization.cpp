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

// An optional input in a shape that broadcasts to x.
ValueId aligned_input(ConvertContext& c, size_t i, ValueId x) {
  if (!c.has(i)) return no_value;
  return align_parameter(c, c.input(i), x, c.rank(x) == 1 ? 0 : c.int_attribute("axis", 1),
                         c.int_attribute("block_size", 0));
}

bool is_quantized(DType dtype) {
  return dtype != DType::f8e8m0 && !holds_objects(dtype) && dtype != DType::boolean &&
         (bit_width(dtype) <= 8 || dtype == DType::i16 || dtype == DType::u16);
}

Values quantize_linear(ConvertContext& c) {
  const ValueId x = c.input(0);
  DType to = dtype_attribute(c, "output_dtype").value_or(c.has(2) ? c.dtype(c.input(2)) : DType::u8);
  if (c.has(2) && c.dtype(c.input(2)) != to)
    c.invalid(fmt::format("the zero point is {}, output_dtype {}", to_string(c.dtype(c.input(2))), to_string(to)));
  if (!is_quantized(to)) c.invalid(fmt::format("numbers are not quantised to {}", to_string(to)));
  // The quotient has the scale's precision; a scale that is a bare exponent or an integer says nothing about it.
  DType precision = c.dtype(c.input(1));
  if (const auto wanted = dtype_attribute(c, "precision")) precision = *wanted;
  if (precision == DType::f8e8m0) precision = c.dtype(x);
  if (!is_floating(precision)) precision = DType::f32;
  const ValueId steps = to_steps(c, x, aligned_input(c, 1, x), aligned_input(c, 2, x), precision, is_integer(to));
  return c.result(ops::Cast{to, c.int_attribute("saturate", 1) != 0}, {saturated(c, steps, to)});
}

Values dequantize_linear(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (!is_quantized(c.dtype(x)) && c.dtype(x) != DType::i32)
    c.invalid(fmt::format("{} is no quantised type", to_string(c.dtype(x))));
  if (c.has(2) && c.dtype(c.input(2)) != c.dtype(x))
    c.invalid(fmt::format("the zero point is {}, the input {}", to_string(c.dtype(c.input(2))), to_string(c.dtype(x))));
  const DType of_scale = c.dtype(c.input(1));
  const DType otherwise = of_scale == DType::f8e8m0 ? DType::f32 : of_scale;
  return {dequantize(c, x, aligned_input(c, 1, x), aligned_input(c, 2, x),
                     dtype_attribute(c, "output_dtype").value_or(otherwise))};
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
  const ValueId steps = requantize(c, sum, row_parameter(c, c.input(1), a), column_parameter(c, c.input(4), b),
                                   row_parameter(c, c.input(6), a), row_parameter(c, c.input(7), a));
  return {store_steps(c, 0, steps, c.dtype(c.input(7)))};
}

Values qlinear_conv(ConvertContext& c) {
  return {store_steps(c, 0, qlinear_conv_steps(c, c.input(0)), c.dtype(c.input(c.has(7) ? 7 : 0)))};
}

constexpr Converter table[] = {
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
  return table;
}

}  // namespace camshaft::onnx
