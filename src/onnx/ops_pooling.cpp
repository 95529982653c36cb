// Poolings.
#include <fmt/format.h>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/spatial.h"
#include "ir/ops/window_ops.h"
#include "onnx/converters.h"
#include "onnx/spatial.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

Values pool(ConvertContext& c, ops::PoolKind kind) {
  const ValueId x = c.input(0);
  if (c.rank(x) > 5) c.unsupported(fmt::format("{} spatial axes; 1 to 3 are supported", c.rank(x) - 2));
  Window w = read_window(c, x);
  ops::Pool op{kind, w.kernel, w.strides, w.pads, w.dilations};
  op.ceil_mode = c.int_attribute("ceil_mode", 0) != 0;
  op.count_include_pad = c.int_attribute("count_include_pad", 0) != 0;
  return c.result(std::move(op), {x});
}

Values max_pool(ConvertContext& c) {
  Values out = pool(c, ops::PoolKind::max);
  if (!c.uses_output(1)) return out;
  Window w = read_window(c, c.input(0));
  const ops::MaxPoolIndices indices{w.kernel,
                                    w.strides,
                                    w.pads,
                                    w.dilations,
                                    c.int_attribute("ceil_mode", 0) != 0,
                                    c.int_attribute("storage_order", 0) != 0};
  out.push_back(c.result_at(1, indices, {c.input(0)}));
  return out;
}
Values average_pool(ConvertContext& c) {
  return pool(c, ops::PoolKind::average);
}

// (Σ |x|^p)^(1/p) over each window: the average over the whole kernel times its size.
Values lp_pool(ConvertContext& c) {
  const DType to = c.dtype(c.input(0));
  const ValueId x = c.widened(c.input(0));
  const DType dtype = c.dtype(x);
  Window w = read_window(c, x);
  const auto p = static_cast<double>(c.int_attribute("p", 2));
  double size = 1;
  for (const int64_t k : w.kernel) size *= static_cast<double>(k);
  ops::Pool op{ops::PoolKind::average, w.kernel, w.strides, w.pads, w.dilations};
  op.count_include_pad = true;
  ops::Slice whole;  // of what rounding up leaves out again
  if (c.int_attribute("ceil_mode", 0) != 0) {
    // More padding instead, so that every window is as large as the kernel.
    for (size_t i = 0; i < w.kernel.size(); ++i) {
      Dim& end = op.pads[w.kernel.size() + i];
      const auto axis = static_cast<int64_t>(i) + 2;
      whole.axes.push_back(axis);
      whole.starts.emplace_back(0);
      whole.counts.push_back(ops::pool_size_rounded_up(c.dim(x, axis), op.pads[i], end,
                                                       ops::window_extent(w.kernel[i], w.dilations[i]), w.strides[i]));
      whole.steps.push_back(1);
      end = end + Dim(w.strides[i] - 1);
    }
  }
  const ValueId powers = c.add(F::pow, {c.add(F::abs, {x}), c.scalar(dtype, p)});
  ValueId mean = c.add(std::move(op), {powers});
  if (!whole.axes.empty()) mean = c.add(std::move(whole), {mean});
  const ValueId sum = c.add(F::mul, {mean, c.scalar(dtype, size)});
  const Values root{sum, c.scalar(dtype, 1 / p)};
  return dtype == to ? c.result(F::pow, root) : c.result(ops::Cast{to}, {c.add(F::pow, root)});
}

Values global(ConvertContext& c, ops::ReduceKind kind) {
  const ValueId x = c.input(0);
  if (c.rank(x) < 3) c.invalid(fmt::format("the input has {} axes; [n, c, spatial...] is needed", c.rank(x)));
  ops::Reduce op{kind, {}, true};
  for (int64_t i = 2; i < c.rank(x); ++i) op.axes.push_back(i);
  return c.result(std::move(op), {x});
}
Values global_lp_pool(ConvertContext& c) {
  const DType to = c.dtype(c.input(0));
  const ValueId x = c.widened(c.input(0));
  if (c.rank(x) < 3) c.invalid(fmt::format("the input has {} axes; [n, c, spatial...] is needed", c.rank(x)));
  const DType dtype = c.dtype(x);
  const auto p = static_cast<double>(c.int_attribute("p", 2));
  ops::Reduce sum{ops::ReduceKind::sum, {}, true};
  for (int64_t i = 2; i < c.rank(x); ++i) sum.axes.push_back(i);
  const ValueId powers = c.add(F::pow, {c.add(F::abs, {x}), c.scalar(dtype, p)});
  const Values root{c.add(std::move(sum), {powers}), c.scalar(dtype, 1 / p)};
  return dtype == to ? c.result(F::pow, root) : c.result(ops::Cast{to}, {c.add(F::pow, root)});
}
Values global_average_pool(ConvertContext& c) {
  return global(c, ops::ReduceKind::mean);
}
Values global_max_pool(ConvertContext& c) {
  return global(c, ops::ReduceKind::max);
}

constexpr Converter pooling_table[] = {
    {"AveragePool", average_pool},
    {"GlobalAveragePool", global_average_pool},
    {"GlobalLpPool", global_lp_pool},
    {"GlobalMaxPool", global_max_pool},
    {"LpPool", lp_pool},
    {"MaxPool", max_pool},
};

}  // namespace

std::span<const Converter> pooling_converters() {
  return pooling_table;
}

}  // namespace camshaft::onnx
