// The reference evaluation of dynamic_reduce, dynamic_pad and dynamic_resize.
#include <algorithm>
#include <numeric>

#include "ir/ops/dynamic.h"
#include "ir/ops/shape_rules.h"
#include "reference/control/dynamic.h"

namespace camshaft::ops {

std::vector<Tensor> DynamicReduce::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  std::vector<int64_t> axes = read_axes(context.input(1), x.rank());
  if (axes.empty() && !noop_with_empty_axes) {
    axes.resize(static_cast<size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::sort(axes.begin(), axes.end());
  return evaluate_static(Reduce{kind, std::move(axes), keep_dims}, {x}, 1, context.pool);
}

std::vector<Tensor> DynamicPad::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const auto rank = static_cast<size_t>(x.rank());
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (context.has(3)) axes = read_axes(context.input(3), x.rank());
  const std::vector<int64_t> given = context.input(1).to_ints();
  if (given.size() != 2 * axes.size()) fail_rule("{} pads for {} axes", given.size(), axes.size());
  Pad op{mode, Shape(2 * rank, Dim(0))};
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<size_t>(axes[i]);
    op.pads[axis] = given[i];
    op.pads[rank + axis] = given[axes.size() + i];
  }
  std::vector<Tensor> inputs{x};
  if (context.has(2)) inputs.push_back(context.input(2));
  return evaluate_static(op, inputs, 1, context.pool);
}

std::vector<Tensor> DynamicResize::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const auto given = [&](size_t i) { return context.has(i) && context.input(i).size() > 0; };
  Resize op = resize;
  const size_t n = op.axes.size();
  if (given(2)) {
    op.scales = context.input(2).to_doubles();
    if (op.scales.size() != n) fail_rule("{} scales for {} axes", op.scales.size(), n);
    for (size_t i = 0; i < n; ++i)
      op.sizes.emplace_back(scaled_size(x.dims().at(static_cast<size_t>(op.axes[i])), op.scales[i]));
  } else if (given(3)) {
    const std::vector<int64_t> sizes = context.input(3).to_ints();
    if (sizes.size() != n) fail_rule("{} sizes for {} axes", sizes.size(), n);
    op.sizes.assign(sizes.begin(), sizes.end());
    op.scales.assign(n, 0);
    keep_aspect_ratio(op, x.dims(), policy);
  } else {
    fail_rule("neither scales nor sizes are given");
  }
  if (op.coordinate == ResizeCoordinate::tf_crop_and_resize) {
    if (!context.has(1)) fail_rule("the region of interest is missing");
    op.roi = context.input(1).to_doubles();
    if (op.roi.size() != 2 * n) fail_rule("{} numbers of roi for {} axes", op.roi.size(), n);
  }
  return evaluate_static(without_unchanged_axes(op, Shape(x.dims().begin(), x.dims().end())), {x}, 1, context.pool);
}

}  // namespace camshaft::ops
