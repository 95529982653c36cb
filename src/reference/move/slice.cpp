// The reference evaluation of slice and dynamic_slice.
#include "base/thread_pool.h"
#include "ir/ops/move.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/slice_bounds.h"
#include "ir/ops/strides.h"
#include "reference/control/dynamic.h"
#include "reference/elements.h"
#include "reference/move/strided_copy.h"

namespace camshaft::ops {

namespace {

// One range an axis of x.
Tensor take(const Tensor& packed, const std::vector<AxisRange>& ranges, ThreadPool& pool) {
  const Tensor x = unpack_subbyte(packed);
  StridedBox box;
  box.source_strides = row_major_strides(x.dims());
  for (size_t i = 0; i < ranges.size(); ++i) {
    box.sizes.push_back(ranges[i].count);
    box.source_offset += ranges[i].start * box.source_strides[i];
    box.source_strides[i] *= ranges[i].count > 1 ? ranges[i].step : 0;  // a huge step over one element may overflow
  }
  box.target_strides = row_major_strides(box.sizes);
  return pack_subbyte(copied(box, x, pool), packed.dtype());
}

std::vector<AxisRange> whole(const Dims& dims) {
  std::vector<AxisRange> ranges;
  for (const int64_t size : dims) ranges.push_back({0, size, 1});
  return ranges;
}

}  // namespace

std::vector<Tensor> Slice::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  std::vector<AxisRange> ranges = whole(x.dims());
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    ranges.at(axis) = {context.evaluate(starts[i]), context.evaluate(counts[i]), steps[i]};
    if (ranges[axis].count < 0) fail_rule("the slice of axis {} has the negative count {}", axis, ranges[axis].count);
    check_inside(ranges[axis], x.dims()[axis], axes[i]);
    if (ranges[axis].count == 0) ranges[axis].start = 0;
  }
  return {take(x, ranges, context.pool)};
}

std::vector<Tensor> DynamicSlice::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const std::vector<int64_t> starts = context.input(1).to_ints(), ends = context.input(2).to_ints();
  std::vector<int64_t> axes, steps(starts.size(), 1);
  for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  if (context.has(3)) axes = context.input(3).to_ints();
  if (context.has(4)) steps = context.input(4).to_ints();
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    fail_rule("a slice has {} starts, {} ends, {} axes and {} steps", starts.size(), ends.size(), axes.size(),
              steps.size());
  Slice op{read_axes(Tensor::from_ints(axes), x.rank()), {}, {}, steps};
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto range = slice_range(starts[i], ends[i], steps[i], x.dims()[static_cast<size_t>(op.axes[i])]);
    op.starts.push_back(range->start);
    op.counts.push_back(range->count);
  }
  return evaluate_static(op, {x}, 1, context.pool);
}

}  // namespace camshaft::ops
