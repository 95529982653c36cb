// Reductions. Axes were an attribute until operator set 13 (ReduceSum) or 18 (the others), and are an input since.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ir/ops/dynamic.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/converters.h"
#include "onnx/generators.h"

namespace camshaft::onnx {

using F = ScalarFunction;
using ops::ReduceKind;

namespace {

// What is reduced.
struct Axes {
  std::vector<int64_t> known;  ///< sorted; empty: nothing, only the elementwise part of the operator remains
  ValueId data = no_value;     ///< the axes where only running tells them
};

Axes reduced_axes(ConvertContext& c) {
  const int64_t rank = c.rank(c.input(0));
  if (!c.has_attribute("axes") && c.has(1) && !c.constant(c.input(1))) {
    const Shape& list = c.shape(c.input(1));
    if (list.size() > 1) c.invalid(fmt::format("the axes must be 1-D, not {}-D", list.size()));
    if (list.empty() || !(list[0] == Dim(0))) return {{}, c.input(1)};
  }
  Axes axes;
  if (!c.has(1) || c.has_attribute("axes") || c.constant(c.input(1)))
    axes.known = c.ints_from("axes", 1).value_or(std::vector<int64_t>{});
  if (axes.known.empty() && c.int_attribute("noop_with_empty_axes", 0) == 0) {
    axes.known.resize(static_cast<size_t>(rank));
    std::iota(axes.known.begin(), axes.known.end(), 0);
  }
  axes.known = c.axes(std::move(axes.known), rank);
  std::sort(axes.known.begin(), axes.known.end());
  return axes;
}

bool keep_dims(const ConvertContext& c) {
  return c.int_attribute("keepdims", 1) != 0;
}

// How many axes are left: as many fewer as there are in the list, or all of them where it is empty.
int64_t rank_left(ConvertContext& c, ValueId axes) {
  const int64_t rank = c.rank(c.input(0));
  const auto count = c.shape(axes).empty() ? std::optional<int64_t>(1) : c.dim(axes, 0).as_constant();
  const int64_t left = count ? rank - *count : c.declared_rank(0, "the number of axes");
  if (left < 0 || left > rank) c.invalid(fmt::format("reducing {} axes cannot leave {}", rank, left));
  return left;
}

// The operator; the elementwise part of it when there are no axes.
Op reduction(ConvertContext& c, ReduceKind kind, const Axes& axes, bool keep) {
  if (axes.data == no_value) return ops::Reduce{kind, axes.known, keep};
  const int64_t rank = keep ? c.rank(c.input(0)) : rank_left(c, axes.data);
  return ops::DynamicReduce{kind, keep, c.int_attribute("noop_with_empty_axes", 0) != 0, rank};
}

Values operands(ValueId x, const Axes& axes) {
  return axes.data == no_value ? Values{x} : Values{x, axes.data};
}

ValueId reduced(ConvertContext& c, ReduceKind kind, ValueId x, const Axes& axes, bool keep) {
  const bool elementwise = kind == ReduceKind::sum_squares || kind == ReduceKind::sum_abs;
  if (axes.known.empty() && axes.data == no_value && !elementwise) return x;
  return c.add(reduction(c, kind, axes, keep), operands(x, axes));
}

template <ReduceKind kind>
Values reduce(ConvertContext& c) {
  const ValueId x = c.input(0);
  const Axes axes = reduced_axes(c);
  if (axes.known.empty() && axes.data == no_value) {
    if (kind == ReduceKind::sum_squares) return c.result(F::mul, {x, x});
    if (kind == ReduceKind::sum_abs) return c.result(F::abs, {x});
    return {x};
  }
  // Max and min of bool are "any" and "all".
  if (c.dtype(x) == DType::boolean) {
    const ValueId number = reduced(c, kind, c.cast(x, DType::u8), axes, keep_dims(c));
    return c.result(ops::Cast{DType::boolean}, {number});
  }
  return c.result(reduction(c, kind, axes, keep_dims(c)), operands(x, axes));
}

Values reduce_l2(ConvertContext& c) {
  const ValueId x = c.input(0);
  const Axes axes = reduced_axes(c);
  if (axes.known.empty() && axes.data == no_value) return c.result(F::abs, {x});
  const ValueId sum = reduced(c, ReduceKind::sum_squares, c.widened(x), axes, keep_dims(c));
  if (c.dtype(sum) != c.dtype(x)) return c.result(ops::Cast{c.dtype(x)}, {c.add(F::sqrt, {sum})});
  if (is_floating(c.dtype(x))) return c.result(F::sqrt, {sum});
  return c.result(ops::Cast{c.dtype(x)}, {c.add(F::sqrt, {c.cast(sum, DType::f64)})});
}

// What logarithms are computed in: of integers, which the standard allows, too, the whole part is the result.
ValueId for_logarithm(ConvertContext& c, ValueId x) {
  return is_floating(c.dtype(x)) ? c.widened(x) : c.cast(x, DType::f64);
}

Values reduce_log_sum(ConvertContext& c) {
  const ValueId x = c.input(0);
  const ValueId sum = reduced(c, ReduceKind::sum, for_logarithm(c, x), reduced_axes(c), keep_dims(c));
  if (c.dtype(sum) == c.dtype(x)) return c.result(F::log, {sum});
  return c.result(ops::Cast{c.dtype(x)}, {c.add(F::log, {sum})});
}

// Unsigned integers of as many bits.
DType unsigned_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return DType::u8;
    case DType::i16:
      return DType::u16;
    case DType::i32:
      return DType::u32;
    case DType::i64:
      return DType::u64;
    default:
      return dtype;
  }
}

// log Σ eˣ = m + log Σ e^(x-m) with m the largest x, which may be infinite. Of integers it is the whole part: m - x as
// an unsigned number, which is exact, exponentials in f32 and the sum with m in f64.
Values reduce_log_sum_exp(ConvertContext& c) {
  const ValueId x = c.input(0);
  const Axes axes = reduced_axes(c);
  if (axes.known.empty() && axes.data == no_value) return {x};
  const DType dtype = c.dtype(x);
  const auto result = [&](auto op, Values inputs) {
    if (is_floating(dtype)) return c.result(std::move(op), std::move(inputs));
    return c.result(ops::Cast{dtype}, {c.add(std::move(op), std::move(inputs))});
  };
  const ValueId largest = reduced(c, ReduceKind::max, x, axes, true);
  ValueId shift, difference;
  if (is_floating(dtype)) {
    const ValueId infinite = c.add(F::is_inf_pos, {c.add(F::abs, {largest})});
    shift = c.add(F::select, {infinite, c.scalar(dtype, 0), largest});
    difference = c.add(F::sub, {x, shift});
  } else {
    shift = c.cast(largest, DType::f64);
    const ValueId below = c.cast(c.add(F::sub, {largest, x}), unsigned_of(dtype));
    difference = c.add(F::neg, {c.cast(below, DType::f32)});
  }
  const ValueId exponents = c.add(F::exp, {difference});
  const ValueId sum = reduced(c, ReduceKind::sum, exponents, axes, true);
  const ValueId log = c.cast(c.add(F::log, {sum}), c.dtype(shift));
  if (keep_dims(c)) return result(F::add, {log, shift});
  const ValueId kept = c.add(F::add, {log, shift});
  // A second reduction of what one element is left of drops the axes.
  if (axes.data != no_value) return result(reduction(c, ReduceKind::max, axes, false), operands(kept, axes));
  Shape shape;
  for (int64_t i = 0; i < c.rank(x); ++i)
    if (!std::binary_search(axes.known.begin(), axes.known.end(), i)) shape.push_back(c.dim(x, i));
  return result(ops::Reshape{std::move(shape)}, {kept});
}

template <bool largest>
Values arg_reduce(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t axis = c.axis(c.int_attribute("axis", 0), c.rank(x));
  return c.result(ops::ArgReduce{largest, axis, keep_dims(c), c.int_attribute("select_last_index", 0) != 0}, {x});
}

// One where the first largest element is, else zero. Before operator set 13, all axes from `axis` on counted as one.
Values hardmax(ConvertContext& c) {
  const ValueId x = c.input(0);
  if (!is_floating(c.dtype(x)))
    c.invalid(fmt::format("it takes floating-point numbers, not {}", to_string(c.dtype(x))));
  const Shape shape = c.shape(x);
  const int64_t rank = c.rank(x), axis = c.axis(c.int_attribute("axis", c.opset() < 13 ? 1 : -1), rank);
  const Dim count = c.opset() < 13 ? product(shape, axis, rank) : shape[static_cast<size_t>(axis)];
  if (count == Dim(0)) return {x};  // no elements at all
  const ValueId rows = c.opset() < 13 ? c.reshape(x, {product(shape, 0, axis), count}) : x;
  const int64_t along = c.opset() < 13 ? 1 : axis;
  ValueId searched = rows;
  if (!count.is_constant()) {  // it may be 0: a last element that is never the first largest
    Shape one = c.shape(rows);
    one[static_cast<size_t>(along)] = 1;
    const ValueId lowest = c.scalar(c.dtype(x), -std::numeric_limits<double>::infinity());
    const ValueId last = c.add(ops::Expand{std::move(one)}, {lowest});
    searched = c.add(ops::Concat{along}, {rows, last});
  }
  const ValueId index = c.add(ops::ArgReduce{true, along, true, false}, {searched});
  Shape broadcast(c.shape(rows).size(), Dim(1));
  broadcast[static_cast<size_t>(along)] = count;
  // Twice as many of 32 bits are compared at once.
  const auto known = count.as_constant();
  const DType type = known && *known < (int64_t{1} << 31) ? DType::i32 : DType::i64;
  const ValueId is_index = c.add(F::equal, {c.cast(index, type), c.reshape(c.cast(iota(c, count), type), broadcast)});
  return {c.reshape(c.cast(is_index, c.dtype(x)), shape)};
}

constexpr Converter reduction_table[] = {
    {"ArgMax", arg_reduce<true>},
    {"ArgMin", arg_reduce<false>},
    {"Hardmax", hardmax},
    {"ReduceL1", reduce<ReduceKind::sum_abs>},
    {"ReduceL2", reduce_l2},
    {"ReduceLogSum", reduce_log_sum},
    {"ReduceLogSumExp", reduce_log_sum_exp},
    {"ReduceMax", reduce<ReduceKind::max>},
    {"ReduceMean", reduce<ReduceKind::mean>},
    {"ReduceMin", reduce<ReduceKind::min>},
    {"ReduceProd", reduce<ReduceKind::prod>},
    {"ReduceSum", reduce<ReduceKind::sum>},
    {"ReduceSumSquare", reduce<ReduceKind::sum_squares>},
};

}  // namespace

std::span<const Converter> reduction_converters() {
  return reduction_table;
}

}  // namespace camshaft::onnx
