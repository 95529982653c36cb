// Slices with known and with data-dependent bounds.
#include <algorithm>

#include "ir/ops/move.h"
#include "ir/ops/shape_rules.h"
#include "ir/ops/slice_bounds.h"

namespace camshaft::ops {

namespace {

std::vector<Dim> picked(const std::vector<Dim>& content, const AxisRange& r) {
  check_inside(r, static_cast<int64_t>(content.size()), 0);
  std::vector<Dim> out;
  for (int64_t i = 0; i < r.count; ++i) out.push_back(content.at(static_cast<size_t>(r.start + i * r.step)));
  return out;
}

}  // namespace

std::vector<Inferred> Slice::infer(const InferContext& context) const {
  const size_t n = axes.size();
  if (starts.size() != n || counts.size() != n || steps.size() != n)
    fail_rule("{} axes, {} starts, {} counts and {} steps do not fit together", n, starts.size(), counts.size(),
              steps.size());
  Inferred out{context.type(0)};
  std::vector<bool> seen(out.type.shape.size(), false);
  std::optional<AxisRange> known;  // of the axis seen last, if constant: a vector has only one
  for (size_t i = 0; i < n; ++i) {
    check_axis(axes[i], context.rank(0));
    const auto axis = static_cast<size_t>(axes[i]);
    if (seen[axis]) fail_rule("axis {} is sliced twice", axes[i]);
    seen[axis] = true;
    if (steps[i] == 0) fail_rule("the step of axis {} is 0", axes[i]);
    if (const auto high = counts[i].upper_bound(); high && *high < 0)
      fail_rule("the slice of axis {} has the negative count {}", axes[i], counts[i].str());
    const auto start = starts[i].as_constant(), count = counts[i].as_constant(),
               size = out.type.shape[axis].as_constant();
    known = start && count ? std::optional<AxisRange>({*start, *count, steps[i]}) : std::nullopt;
    if (known && size) check_inside(*known, *size, axes[i]);
    out.type.shape[axis] = counts[i];
  }
  const auto content = known_content(context, 0);
  if (content && n == 0) out.content = content;
  if (content && n == 1 && known) out.content = picked(*content, *known);
  return {out};
}

std::vector<Inferred> DynamicSlice::infer(const InferContext& context) const {
  static constexpr const char* names[] = {"", "the starts", "the ends", "the axes", "the steps"};
  for (size_t i = 1; i <= 4; ++i) {
    if (i > 2 && !context.has(i)) continue;
    check_index_dtype(context.dtype(i), names[i]);
    if (context.rank(i) != 1) fail_rule("{} must be 1-D, not {}-D", names[i], context.rank(i));
    if (provably_different(context.shape(i)[0], context.shape(1)[0]))
      fail_rule("{} have {} elements, the starts {}", names[i], context.shape(i)[0].str(), context.shape(1)[0].str());
  }
  Inferred out{context.type(0)};
  const int64_t rank = context.rank(0);
  const auto count = context.shape(1)[0].as_constant();
  auto axes = known_content(context, 3);
  if (!context.has(3) && count) {
    if (*count > rank) fail_rule("a slice of {} axes, the tensor has {}", *count, rank);
    axes.emplace();
    for (int64_t i = 0; i < *count; ++i) axes->push_back(i);
  }
  if (!axes || !std::all_of(axes->begin(), axes->end(), [](const Dim& d) { return d.is_constant(); })) {
    for (size_t i = 0; i < out.type.shape.size(); ++i) out.type.shape[i] = context.fresh(0, i);
    return {out};
  }
  const auto starts = known_content(context, 1), ends = known_content(context, 2), steps = known_content(context, 4);
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t from_front = (*axes)[i].value() + ((*axes)[i].value() < 0 ? rank : 0);
    check_axis(from_front, rank);
    const auto axis = static_cast<size_t>(from_front);
    std::optional<SliceRange> range;
    const Dim step = steps && i < steps->size() ? (*steps)[i] : Dim(1);
    if (starts && ends && (steps || !context.has(4)) && i < starts->size() && i < ends->size() && step.is_constant())
      range = slice_range((*starts)[i], (*ends)[i], step.value(), context.shape(0)[axis]);
    out.type.shape[axis] = range ? range->count : context.fresh(0, axis);
    if (const auto content = known_content(context, 0); range && content && axes->size() == 1) {
      const auto first = range->start.as_constant(), taken = range->count.as_constant();
      if (first && taken) out.content = picked(*content, {*first, *taken, step.value()});
    }
  }
  return {out};
}

}  // namespace camshaft::ops
