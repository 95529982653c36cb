// Matrix products and convolutions.
#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/float8.h"
#include "ir/ops/quantized.h"
#include "onnx/export/export_operator.h"
#include "onnx/export/joined_nodes.h"
#include "onnx/export/window.h"

namespace camshaft::onnx {

namespace {

std::vector<int64_t> kernel_of(ExportContext& c, size_t weights) {
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < c.shape(weights).size(); ++i)
    kernel.push_back(c.fixed(c.shape(weights)[i], "the size of the kernel"));
  return kernel;
}

std::string matrix(ExportContext& c, size_t i, bool transposed) {
  if (!transposed) return c.input(i);
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < c.rank(i); ++axis) order.push_back(axis);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.transpose(c.input(i), order);
}

bool is_all_zero(const Tensor* constant) {
  if (!constant || constant->is_elided()) return false;
  const std::vector<int64_t> values = constant->to_ints();
  return std::all_of(values.begin(), values.end(), [](int64_t v) { return v == 0; });
}

/// A zero point as ONNX's integer products take it: a number as one, one for each row or column as a list.
std::string zero_point(ExportContext& c, size_t i, size_t axis_from_end) {
  if (!c.has(i)) return {};
  const Shape& shape = c.shape(i);
  bool is_number = true, is_list = true;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    is_number = is_number && shape[axis] == Dim(1);
    is_list = is_list && (shape.size() - axis == axis_from_end || shape[axis] == Dim(1));
  }
  if (is_number) return c.reshape(c.input(i), shape, {});
  return is_list ? c.reshape(c.input(i), shape, {shape[shape.size() - axis_from_end]}) : c.input(i);
}

}  // namespace

void export_as(ExportContext& c, const ops::MatMul& op) {
  if (!op.transpose_a && !op.transpose_b) return c.result("MatMul", c.inputs());
  if (c.rank(0) == 2 && c.rank(1) == 2 && is_gemm_type(c.dtype(0))) {
    Attributes attributes;
    if (op.transpose_a) attributes.integer("transA", 1);
    if (op.transpose_b) attributes.integer("transB", 1);
    return c.result("Gemm", c.inputs(), std::move(attributes));
  }
  const std::string a = matrix(c, 0, op.transpose_a), b = matrix(c, 1, op.transpose_b);
  c.result("MatMul", {a, b});
}

void export_as(ExportContext& c, const ops::Conv& op) {
  const std::vector<int64_t> kernel = kernel_of(c, 1);
  PaddedInput padded = padded_input(c, {kernel, op.strides, op.pads, op.dilations, op.channels_last, false},
                                    [&] { return c.number(c.dtype(0), 0); });
  padded.attributes.integer("group", op.groups);
  c.spatial_result("Conv", {padded.x, c.input(1), c.input(2)}, std::move(padded.attributes), op.channels_last);
}

void export_as(ExportContext& c, const ops::ConvTranspose& op) {
  Attributes attributes;
  attributes.integers("kernel_shape", kernel_of(c, 1)).integers("strides", op.strides);
  attributes.integers("pads", c.fixed(op.pads, "the pads of a transposed convolution"));
  attributes.integers("dilations", op.dilations).integer("group", op.groups);
  attributes.integers("output_padding", c.fixed(op.output_padding, "the padding of a transposed convolution's output"));
  const std::string x = c.channels_first(0, op.channels_last);
  c.spatial_result("ConvTranspose", {x, c.input(1), c.input(2)}, std::move(attributes), op.channels_last);
}

void export_as(ExportContext& c, const ops::IntegerMatMul&) {
  const std::string a_zero = zero_point(c, 2, 2), b_zero = zero_point(c, 3, 1);
  c.result("MatMulInteger", {c.input(0), c.input(1), a_zero, b_zero});
}

void export_as(ExportContext& c, const ops::IntegerConv& op) {
  const std::vector<int64_t> kernel = kernel_of(c, 1);
  const std::string zero = c.has(2) ? c.reshape(c.input(2), c.shape(2), {}) : std::string();
  PaddedInput padded = padded_input(c, {kernel, op.strides, op.pads, op.dilations, op.channels_last, false},
                                    [&] { return c.has(2) ? zero : c.number(c.dtype(0), 0); });
  padded.attributes.integer("group", op.groups);
  // One for each channel is in the standard, and most software takes none: of zeros none is needed.
  const std::string weights_zero = is_all_zero(c.constant_input(3)) ? std::string() : c.input(3);
  const std::vector<std::string> inputs{padded.x, c.input(1), zero, weights_zero};
  if (!c.has(4)) return c.spatial_result("ConvInteger", inputs, std::move(padded.attributes), op.channels_last);
  Shape bias(c.shape(1).size() - 1, Dim(1));
  bias[0] = c.shape(4)[0];
  const std::string sum = c.add("ConvInteger", inputs, std::move(padded.attributes));
  c.spatial_result("Add", {sum, c.reshape(c.input(4), c.shape(4), bias)}, {}, op.channels_last);
}

void export_as(ExportContext& c, const ops::Float8MatMul&) {
  c.result("MatMul", {c.cast(c.input(0), DType::f32), c.cast(c.input(1), DType::f32)});
}

void export_as(ExportContext& c, const ops::Float8Conv& op) {
  PaddedInput padded = padded_input(c, {kernel_of(c, 1), op.strides, op.pads, op.dilations, op.channels_last, false},
                                    [&] { return c.number(c.dtype(0), 0); });
  padded.attributes.integer("group", op.groups);
  c.spatial_result("Conv", {c.cast(padded.x, DType::f32), c.cast(c.input(1), DType::f32)}, std::move(padded.attributes),
                   op.channels_last);
}

}  // namespace camshaft::onnx
