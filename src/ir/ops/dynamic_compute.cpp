// Reductions, padding and resizing with parameters that are data.
#include <algorithm>

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

}  // namespace camshaft::ops
