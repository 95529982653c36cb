// Operators of the domain com.microsoft that are neither attention nor fusions.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// Operators that the standard has taken over since.
Values standard(ConvertContext& c) {
  const Converter* converter = find_converter("", c.node().op_type, newest_opset);
  if (!converter) c.unsupported("Camshaft does not have this operator");
  return converter->convert(c);
}

Values expand_dims(ConvertContext& c) {
  const ValueId x = c.input(0);
  const auto given = c.ints(c.input(1), "the axis");
  if (given.size() != 1) c.invalid(fmt::format("{} axes are given instead of one", given.size()));
  Shape shape = c.shape(x);
  shape.insert(shape.begin() + c.axis(given[0], c.rank(x) + 1), Dim(1));
  return c.result(ops::Reshape{std::move(shape)}, {x});
}

// All windows of an axis; what is in a window becomes a new last axis.
Values unfold_tensor(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x), axis = c.axis(c.int_attribute("dim", -1), rank);
  const int64_t size = c.int_attribute("size"), step = c.int_attribute("step", 1);
  if (size < 1 || step < 1) c.invalid(fmt::format("size {} and step {} must be positive", size, step));
  const Dim room = c.dim(x, axis) - Dim(size);
  if (const auto most = room.upper_bound(); most && *most < 0)
    c.invalid(fmt::format("windows of {} do not fit into {} elements", size, c.dim(x, axis).str()));
  const Dim windows = floor_div(room, step) + Dim(1);
  const ValueId first = c.add(F::mul, {c.reshape(iota(c, windows), {windows, 1}), dim_scalar(c, step)});
  const ValueId y = c.add(ops::Gather{axis}, {x, c.add(F::add, {first, iota(c, size)})});
  std::vector<int64_t> permutation;
  for (int64_t i = 0; i <= rank; ++i)
    if (i != axis + 1) permutation.push_back(i);
  permutation.push_back(axis + 1);
  return c.result(ops::Transpose{std::move(permutation)}, {y});
}

Values cdist(ConvertContext& c) {
  const ValueId a = c.input(0), b = c.input(1);
  if (c.rank(a) != 2 || c.rank(b) != 2) c.invalid(fmt::format("A has {} axes and B {}, not 2", c.rank(a), c.rank(b)));
  const std::string metric = c.string_attribute("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") c.unsupported(fmt::format("the metric {}", quote(metric)));
  const Shape sa = c.shape(a), sb = c.shape(b);
  const ValueId column = c.reshape(a, {sa[0], 1, sa[1]}), row = c.reshape(b, {1, sb[0], sb[1]});
  const ValueId difference = c.add(F::sub, {column, row});
  const ValueId squares = c.add(ops::Reduce{ops::ReduceKind::sum_squares, {2}, false}, {difference});
  return {metric == "euclidean" ? c.add(F::sqrt, {squares}) : squares};
}

Values reduce_sum_integer(ConvertContext& c) {
  const ValueId x = c.input(0);
  auto axes = c.axes(c.ints_attribute("axes").value_or(std::vector<int64_t>()), c.rank(x));
  std::sort(axes.begin(), axes.end());
  const ValueId wide = c.cast(x, is_signed(c.dtype(x)) ? DType::i32 : DType::u32);
  return c.result(ops::Reduce{ops::ReduceKind::sum, axes, c.int_attribute("keepdims", 1) != 0}, {wide});
}

Values is_all_finite(ConvertContext& c) {
  const bool nan_only = c.int_attribute("isnan_only", 0) != 0, inf_only = c.int_attribute("isinf_only", 0) != 0;
  if (nan_only && inf_only) c.invalid("isnan_only and isinf_only exclude each other");
  ValueId found = no_value;
  const ValueId zero = c.add_constant(Tensor(DType::i32, {1}));  // of an empty tensor, all are finite
  const auto count = [&](ValueId x, F test) {
    const ValueId flat = c.reshape(x, {product(c.shape(x))});
    const ValueId ones = c.cast(c.add(test, {flat}), DType::i32);
    const ValueId any = c.add(ops::Reduce{ops::ReduceKind::max, {0}, false}, {c.add(ops::Concat{0}, {ones, zero})});
    found = found == no_value ? any : c.add(F::max, {found, any});
  };
  for (const ValueId x : c.all_inputs()) {
    if (!inf_only) count(x, F::is_nan);
    if (nan_only) continue;
    count(x, F::is_inf_pos);
    count(x, F::is_inf_neg);
  }
  return c.result(F::equal, {found, c.scalar(DType::i32, 0)});
}

// Pairs of the last axis are complex numbers: (a0·b0 ∓ a1·b1, a1·b0 ± a0·b1).
Values complex_product(ConvertContext& c, bool conjugate) {
  const ValueId a = c.input(0), b = c.input(1);
  for (const ValueId x : {a, b})
    if (c.rank(x) < 1 || !(c.shape(x).back() == Dim(2))) c.invalid("the last axis must be of size 2");
  const auto part = [&](ValueId x, int64_t i) { return slice_axis(c, x, c.rank(x) - 1, i, 1); };
  const ValueId a0 = part(a, 0), a1 = part(a, 1), b0 = part(b, 0), b1 = part(b, 1);
  const ValueId a0_b0 = c.add(F::mul, {a0, b0}), a1_b1 = c.add(F::mul, {a1, b1});
  const ValueId a1_b0 = c.add(F::mul, {a1, b0}), a0_b1 = c.add(F::mul, {a0, b1});
  const ValueId real = c.add(conjugate ? F::add : F::sub, {a0_b0, a1_b1});
  const ValueId imaginary = c.add(conjugate ? F::sub : F::add, {a1_b0, a0_b1});
  return c.result(ops::Concat{c.rank(real) - 1}, {real, imaginary});
}
Values complex_mul(ConvertContext& c) {
  return complex_product(c, false);
}
Values complex_mul_conj(ConvertContext& c) {
  return complex_product(c, true);
}

constexpr Converter microsoft_other_table[] = {
    {"CDist", cdist},
    {"ComplexMul", complex_mul},
    {"ComplexMulConj", complex_mul_conj},
    {"ExpandDims", expand_dims},
    {"GatherND", standard},
    {"IsAllFinite", is_all_finite},
    {"ReduceSumInteger", reduce_sum_integer},
    {"Trilu", standard},
    {"UnfoldTensor", unfold_tensor},
};

}  // namespace

std::span<const Converter> microsoft_other_converters() {
  return microsoft_other_table;
}

}  // namespace camshaft::onnx
