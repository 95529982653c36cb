// Reductions, and what normalises by them.
#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/ops/dynamic.h"
#include "ir/ops/reduce.h"
#include "onnx/export/export_operator.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

namespace {

const char* operator_of(ops::ReduceKind kind) {
  switch (kind) {
    case ops::ReduceKind::sum:
      return "ReduceSum";
    case ops::ReduceKind::mean:
      return "ReduceMean";
    case ops::ReduceKind::max:
      return "ReduceMax";
    case ops::ReduceKind::min:
      return "ReduceMin";
    case ops::ReduceKind::prod:
      return "ReduceProd";
    case ops::ReduceKind::sum_squares:
      return "ReduceSumSquare";
    case ops::ReduceKind::sum_abs:
      break;
  }
  return "ReduceL1";
}

/// An operand with one number for each element of `shape`, or that number everywhere where there is none.
std::string number_for_each(ExportContext& c, size_t i, const Shape& shape, double otherwise) {
  if (c.has(i)) return c.input(i);
  const DType dtype = c.dtype(0);
  Dims dims;
  for (const Dim& size : shape) dims.push_back(size.as_constant().value_or(-1));
  bool is_known = true;
  for (const int64_t size : dims) is_known = is_known && size >= 0;
  if (!is_known) return c.add("Expand", {c.number(dtype, otherwise), c.sizes(shape)});
  const Tensor one = Tensor::scalar(dtype, otherwise);
  Tensor all(dtype, dims);
  for (size_t at = 0; at < all.bytes(); at += one.bytes())
    std::copy(one.span().begin(), one.span().end(), all.mutable_data() + at);
  return c.constant(all);
}

/// The number that all elements of a constant are.
std::optional<double> same_everywhere(const Tensor* constant) {
  if (!constant || constant->is_elided() || constant->size() == 0) return std::nullopt;
  const std::vector<double> numbers = constant->to_doubles();
  const bool is_same = std::all_of(numbers.begin(), numbers.end(), [&](double x) { return x == numbers[0]; });
  return is_same ? std::optional(numbers[0]) : std::nullopt;
}

}  // namespace

void export_as(ExportContext& c, const ops::Reduce& op) {
  const std::string x = c.input(0);
  if (op.axes.empty()) {  // only the elementwise part is left
    if (op.kind == ops::ReduceKind::sum_squares) return c.result("Mul", {x, x});
    return c.result(op.kind == ops::ReduceKind::sum_abs ? "Abs" : "Identity", {x});
  }
  Attributes attributes;
  if (!op.keep_dims) attributes.integer("keepdims", 0);
  c.result(operator_of(op.kind), {x, c.ints(op.axes)}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::DynamicReduce& op) {
  c.result(operator_of(op.kind), {c.input(0), c.indices(1)},
           Attributes().flag("keepdims", op.keep_dims).flag("noop_with_empty_axes", op.noop_with_empty_axes));
}

void export_as(ExportContext& c, const ops::ArgReduce& op) {
  Attributes attributes = Attributes().integer("axis", op.axis).flag("keepdims", op.keep_dims);
  if (op.select_last) attributes.integer("select_last_index", 1);
  c.result(op.largest ? "ArgMax" : "ArgMin", {c.input(0)}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::Softmax& op) {
  c.result(op.log ? "LogSoftmax" : "Softmax", {c.input(0)}, Attributes().integer("axis", op.axis));
}

void export_as(ExportContext& c, const ops::LayerNorm& op) {
  const Shape& x = c.shape(0);
  const Shape normalised(x.begin() + op.axis, x.end());
  const std::string input = c.input(0);
  if (!op.root_mean_square)
    return c.result("LayerNormalization", {input, number_for_each(c, 1, normalised, 1), c.input(2)},
                    Attributes().integer("axis", op.axis).number("epsilon", op.epsilon));
  if (!op.clamped) {
    const Attributes attributes = Attributes().integer("axis", op.axis).number("epsilon", op.epsilon);
    const std::string scale = number_for_each(c, 1, normalised, 1);
    if (!c.has(2)) return c.result({"RMSNormalization", 23}, {input, scale}, attributes);
    return c.result("Add", {c.add({"RMSNormalization", 23}, {input, scale}, attributes), c.input(2)});
  }
  // x / sqrt(max(mean square, epsilon)), with the mean square in f32 or wider.
  const DType dtype = c.dtype(0), wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const bool widens = wide != dtype;
  const std::string numbers = widens ? c.cast(input, wide) : input;
  std::vector<int64_t> axes;
  for (int64_t axis = op.axis; axis < c.rank(0); ++axis) axes.push_back(axis);
  Dim count = 1;
  for (const int64_t axis : axes) count = count * c.shape(0)[static_cast<size_t>(axis)];
  const auto scale = c.has(1) && !c.has(2) && !widens ? same_everywhere(c.constant_input(1)) : std::nullopt;
  if (const auto n = count.as_constant(); n && *n > 0 && scale) {
    // x / max(|x|, sqrt(epsilon n)), times scale · sqrt(n), which is 1 where vectors become as long as that.
    const double root = std::sqrt(static_cast<double>(*n)), factor = *scale * root;
    const std::string length = c.add("ReduceL2", {input, c.ints(axes)});
    const std::string bounded = c.add("Max", {length, c.number(dtype, std::sqrt(op.epsilon) * root)});
    const double rounding = dtype == DType::f64 ? 0x1p-52 : 0x1p-23;
    if (std::abs(factor - 1) <= rounding) return c.result("Div", {input, bounded});
    return c.result("Mul", {c.add("Div", {input, bounded}), c.number(dtype, factor)});
  }
  const std::string squares = c.add("Mul", {numbers, numbers});
  const std::string mean = c.add("ReduceMean", {squares, c.ints(axes)});
  const std::string root = c.add("Sqrt", {c.add("Max", {mean, c.number(wide, op.epsilon)})});
  // The last of these is the result.
  std::string y = numbers;
  std::string other = root;
  const char* step = "Div";
  for (size_t i = 1; i <= 2; ++i) {
    if (!c.has(i)) continue;
    y = c.add(step, {y, other});
    other = widens ? c.cast(c.input(i), wide) : c.input(i);
    step = i == 1 ? "Mul" : "Add";
  }
  if (!widens) return c.result(step, {y, other});
  c.result("Cast", {c.add(step, {y, other})}, Attributes().integer("to", dtype_to_onnx(dtype)));
}

void export_as(ExportContext& c, const ops::GroupNorm& op) {
  const Shape& shape = c.shape(0);
  const Dim& channels = shape[op.channels_last ? shape.size() - 1 : 1];
  const std::string x = c.channels_first(0, op.channels_last);
  const std::string scale = number_for_each(c, 1, {channels}, 1), bias = number_for_each(c, 2, {channels}, 0);
  Attributes attributes = Attributes().number("epsilon", op.epsilon);
  if (channels == Dim(op.groups) && shape.size() > 2)
    return c.spatial_result("InstanceNormalization", {x, scale, bias}, std::move(attributes), op.channels_last);
  attributes.integer("num_groups", op.groups);
  c.spatial_result("GroupNormalization", {x, scale, bias}, std::move(attributes), op.channels_last);
}

}  // namespace camshaft::onnx
