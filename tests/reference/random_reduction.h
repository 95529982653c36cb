// Reductions with pointwise steps before and behind: bodies of reduce regions, for the tests of their kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "ir/graph.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft {

inline Tensor number_of(DType dtype, double x) {
  Tensor t(dtype, {});
  if (is_floating(dtype)) {
    ops::store_elements(dtype, t.mutable_data(), 0, 1, 1, &x);
  } else {
    const auto n = static_cast<int64_t>(x);
    ops::store_elements(dtype, t.mutable_data(), 0, 1, 1, &n);
  }
  return t;
}

/// Built from the first step to the last.
struct ReductionSteps {
  DType dtype;
  /// What rounding may make of a result, as a part of the largest one.
  double tolerance = 3e-6;
  Graph body;
  std::vector<Tensor> operands;
  ValueId last = no_value;

  explicit ReductionSteps(DType type) : dtype(type) {}

  ValueId operand(Tensor t) {
    operands.push_back(std::move(t));
    const Tensor& made = operands.back();
    return body.add_input("x" + std::to_string(body.inputs.size()),
                          {made.dtype(), Shape(made.dims().begin(), made.dims().end())});
  }
  ValueId constant(double x) { return body.add_constant("c", number_of(dtype, x)); }
  void apply(ScalarFunction f, std::vector<ValueId> inputs) {
    last = body.add(ops::Pointwise{f}, std::move(inputs), "v");
  }
  void cast() { last = body.add(ops::Cast{.to = dtype}, {last}, "v"); }
  void reduce(ops::ReduceKind kind, std::vector<int64_t> axes, bool keep_dims = true) {
    last = body.add(ops::Reduce{kind, std::move(axes), keep_dims}, {last}, "r");
  }
  /// The region's body, when nothing more comes.
  Graph finish() {
    body.add_output("y", last);
    return body;
  }
  Dims dims() const {
    Dims sizes;
    for (const Dim& d : body.shape(last)) sizes.push_back(d.evaluate({}));
    return sizes;
  }
};

/// Of `dims`, with some axes of size 1, and perhaps without the first ones.
inline Dims broadcast_of(const Dims& dims, Random& random) {
  Dims made = dims;
  for (int64_t& d : made)
    if (random.integer(0, 2) == 0) d = 1;
  if (!made.empty() && random.integer(0, 3) == 0)
    made.erase(made.begin(), made.begin() + random.integer(0, static_cast<int64_t>(made.size())));
  return made;
}

/// A few infinities and NaN among its numbers.
inline Tensor random_operand(DType dtype, const Dims& dims, ops::ReduceKind kind, Random& random) {
  Tensor t = random_tensor(random, dtype, dims);
  // The product of many numbers: near 1.
  if (kind == ops::ReduceKind::prod && dtype == DType::f32)
    for (int64_t i = 0; i < t.size(); ++i) t.as_mutable<float>()[i] = 1 + t.as<float>()[i] * 1e-3F;
  if (dtype == DType::f32 && t.size() > 4 && random.integer(0, 9) == 0) {
    auto* x = t.as_mutable<float>();
    x[random.integer(0, t.size() - 1)] = random.integer(0, 1) ? HUGE_VALF : -HUGE_VALF;
    if (random.integer(0, 1)) x[random.integer(0, t.size() - 1)] = std::nanf("");
  }
  return t;
}

/// What rounding can make of the result: the steps round by up to 4 units in the last place, all elements in the same
/// direction where they are equal, and what they cancel (x - y) or multiply carries the error along.
inline double rounding_of(const ReductionSteps& region, const Dims& dims, const std::vector<int64_t>& axes,
                          ThreadPool& pool) {
  constexpr double unit = 4 * 0x1p-24;
  Graph all = region.body;
  for (const Node& node : all.nodes) all.add_output("v" + std::to_string(all.outputs.size()), node.outputs[0]);
  const std::vector<Tensor> values = evaluate(all, region.operands, pool);
  const auto largest = [](const Tensor& t) {
    double most = 0;
    for (const double v : t.to_doubles())
      if (std::isfinite(v)) most = std::max(most, std::abs(v));
    return most;
  };
  double count = 1, error = 0, magnitude = largest(region.operands[0]);
  for (const int64_t axis : axes) count *= static_cast<double>(dims[static_cast<size_t>(axis)]);
  for (size_t n = 0; n < all.nodes.size(); ++n) {
    const double now = largest(values[n]);
    const auto* reduce = all.nodes[n].op.as<ops::Reduce>();
    if (const auto* step = all.nodes[n].op.as<ops::Pointwise>(); step && step->function == ScalarFunction::mul)
      error *= magnitude > 0 ? std::max(1.0, now / magnitude) : 1;
    // n of them are off by some sqrt(n) of what each rounds by: products by a part of themselves, sums by a part of
    // what they add up, which may cancel, and of what they have come to.
    if (reduce && reduce->kind == ops::ReduceKind::prod) error += 2 * std::sqrt(count) * unit * now;
    if (reduce && reduce->kind == ops::ReduceKind::sum_squares) {
      error *= 2 * magnitude;
      magnitude *= magnitude;
    }
    if (reduce && (reduce->kind == ops::ReduceKind::sum || reduce->kind == ops::ReduceKind::sum_abs ||
                   reduce->kind == ops::ReduceKind::sum_squares))
      error = error * count + std::sqrt(count) * (unit * magnitude + 0x1p-24 * now);
    error += unit * now;
    magnitude = now;
  }
  return error / std::max(1.0, magnitude);
}

/// Of any kind.
inline ReductionSteps random_reduction(DType dtype, const Dims& dims, const std::vector<int64_t>& axes,
                                       Random& random) {
  const auto kind = static_cast<ops::ReduceKind>(random.integer(0, 6));
  const bool real = is_floating(dtype), factors = kind == ops::ReduceKind::prod;
  ReductionSteps region(dtype);
  // Steps on both sides, or on one of them.
  const int64_t form = random.integer(0, 5);
  region.last = region.operand(random_operand(dtype, dims, kind, random));
  const auto step = [&](const Dims& sizes, ScalarFunction f) {
    region.apply(f, {region.last, region.operand(random_operand(dtype, broadcast_of(sizes, random), kind, random))});
  };
  const int64_t steps = form == 0 ? 0 : random.integer(1, 4);
  for (int64_t s = 0; s < steps; ++s) {
    const int64_t which = factors ? 0 : random.integer(0, 4);
    if (which == 0) step(dims, ScalarFunction::mul);
    if (which == 1) step(dims, ScalarFunction::sub);
    if (which == 2) step(dims, ScalarFunction::max);
    if (which == 3) region.apply(real ? ScalarFunction::sigmoid : ScalarFunction::abs, {region.last});
    if (which == 4) region.apply(ScalarFunction::add, {region.constant(3), region.last});
  }
  region.reduce(kind, axes, random.integer(0, 1) == 0);
  const auto finished = [&] {
    ThreadPool pool(1);
    if (real) region.tolerance = std::max(region.tolerance, rounding_of(region, dims, axes, pool));
    return region;
  };
  if (form == 1 && steps > 0) return finished();
  const Dims results = region.dims();
  step(results, ScalarFunction::add);
  if (random.integer(0, 1)) region.apply(ScalarFunction::max, {region.last, region.constant(1)});
  if (random.integer(0, 1)) step(results, ScalarFunction::min);
  return finished();
}

}  // namespace camshaft
