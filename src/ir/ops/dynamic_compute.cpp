// Reductions, padding and resizing with parameters that are data.
#include <algorithm>
#include <numeric>

#include "ir/ops/dynamic.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

std::vector<Inferred> DynamicReduce::infer(const InferContext& context) const {
  check_index_dtype(context.dtype(1), "the axes");
  if (context.rank(1) > 1) fail_rule("the axes must be 1-D, not {}-D", context.rank(1));
  Inferred out{context.type(0)};
  if (keep_dims) {
    for (size_t i = 0; i < out.type.shape.size(); ++i)
      if (!(out.type.shape[i] == Dim(1))) out.type.shape[i] = context.fresh(0, i);
    return {out};
  }
  if (rank < 0 || rank > context.rank(0)) fail_rule("reducing {} axes cannot leave {}", context.rank(0), rank);
  out.type.shape.clear();
  for (int64_t i = 0; i < rank; ++i) out.type.shape.push_back(context.fresh(0, static_cast<size_t>(i)));
  return {out};
}

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

std::vector<Inferred> DynamicPad::infer(const InferContext& context) const {
  static constexpr const char* names[] = {"", "the pads", "", "the axes"};
  for (const size_t i : {size_t{1}, size_t{3}}) {
    if (!context.has(i)) continue;
    check_index_dtype(context.dtype(i), names[i]);
    if (context.rank(i) != 1) fail_rule("{} must be 1-D, not {}-D", names[i], context.rank(i));
  }
  Inferred out{context.type(0)};
  const auto axes = known_content(context, 3);
  const bool known_axes = axes && std::all_of(axes->begin(), axes->end(), [](const Dim& d) { return d.is_constant(); });
  const Dim count = context.has(3) ? context.shape(3)[0] : Dim(context.rank(0));
  if (provably_different(context.shape(1)[0], Dim(2) * count))
    fail_rule("{} pads for {} axes", context.shape(1)[0].str(), count.str());
  std::vector<bool> padded(out.type.shape.size(), !known_axes);
  for (size_t i = 0; known_axes && i < axes->size(); ++i) {
    const int64_t axis = (*axes)[i].value() + ((*axes)[i].value() < 0 ? context.rank(0) : 0);
    check_axis(axis, context.rank(0));
    padded[static_cast<size_t>(axis)] = true;
  }
  for (size_t i = 0; i < padded.size(); ++i)
    if (padded[i]) out.type.shape[i] = context.fresh(0, i);
  return {out};
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

std::vector<Inferred> DynamicResize::infer(const InferContext& context) const {
  static constexpr const char* names[] = {"", "the region of interest", "the scales", "the sizes"};
  for (size_t i = 1; i <= 3; ++i) {
    if (!context.has(i)) continue;
    if (context.rank(i) != 1) fail_rule("{} must be 1-D, not {}-D", names[i], context.rank(i));
    if (i == 3) check_index_dtype(context.dtype(i), names[i]);
    if (i != 3 && !is_floating(context.dtype(i)))
      fail_rule("{} must be floats, not {}", names[i], to_string(context.dtype(i)));
  }
  if (!context.has(2) && !context.has(3)) fail_rule("neither scales nor sizes are given");
  if (!resize.sizes.empty() || !resize.scales.empty() || !resize.roi.empty())
    fail_rule("sizes, scales and roi are inputs of this operator");
  Inferred out{context.type(0)};
  for (const int64_t axis : resize.axes) {
    check_axis(axis, context.rank(0));
    out.type.shape[static_cast<size_t>(axis)] = context.fresh(0, static_cast<size_t>(axis));
  }
  return {out};
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
