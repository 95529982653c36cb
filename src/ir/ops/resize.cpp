#include "ir/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

int64_t scaled_size(int64_t size, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) fail_rule("the scale {} is not positive", scale);
  const float scaled = std::floor(static_cast<float>(size) * static_cast<float>(scale));
  if (!(scaled < 0x1p62F)) fail_rule("a size of {} cannot be scaled by {}", size, scale);
  return static_cast<int64_t>(scaled);
}

void keep_aspect_ratio(Resize& op, const Dims& dims, ResizePolicy policy) {
  if (policy == ResizePolicy::stretch || op.axes.empty()) return;
  double scale = 0;
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const int64_t in = dims.at(static_cast<size_t>(op.axes[i]));
    if (in <= 0) fail_rule("axis {} has no elements whose ratio could be kept", op.axes[i]);
    const double s = static_cast<double>(op.sizes[i].value()) / static_cast<double>(in);
    scale = i == 0 ? s : policy == ResizePolicy::not_larger ? std::min(scale, s) : std::max(scale, s);
  }
  op.scales.assign(op.axes.size(), scale);
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const double size = std::floor(scale * static_cast<double>(dims[static_cast<size_t>(op.axes[i])]) + 0.5);
    if (!(size >= 0 && size < 0x1p62)) fail_rule("axis {} cannot be scaled by {}", op.axes[i], scale);
    op.sizes[i] = static_cast<int64_t>(size);
  }
}

Resize without_unchanged_axes(const Resize& op, const Shape& shape) {
  const bool crops = op.coordinate == ResizeCoordinate::tf_crop_and_resize;
  std::vector<size_t> order(op.axes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return op.axes[a] < op.axes[b]; });
  Resize kept = op;
  kept.axes.clear();
  kept.sizes.clear();
  kept.scales.clear();
  kept.roi.clear();
  std::vector<double> ends;
  for (const size_t i : order) {
    const bool same =
        op.sizes[i] == shape.at(static_cast<size_t>(op.axes[i])) && (op.scales[i] == 0 || op.scales[i] == 1);
    if (same && !crops) continue;
    kept.axes.push_back(op.axes[i]);
    kept.sizes.push_back(op.sizes[i]);
    kept.scales.push_back(op.scales[i]);
    if (!crops) continue;
    kept.roi.push_back(op.roi[i]);
    ends.push_back(op.roi[op.axes.size() + i]);
  }
  kept.roi.insert(kept.roi.end(), ends.begin(), ends.end());
  return kept;
}

size_t Resize::sliced_operands(const std::vector<size_t>& ranks) const {
  const bool keeps_columns = axes.empty() || axes.back() + 1 != static_cast<int64_t>(ranks[0]);
  return keeps_columns ? 1 : 0;
}

std::vector<Inferred> Resize::infer(const InferContext& context) const {
  Inferred out{context.type(0)};
  const size_t n = axes.size();
  if (sizes.size() != n || (!scales.empty() && scales.size() != n))
    fail_rule("{} axes, {} sizes and {} scales do not fit together", n, sizes.size(), scales.size());
  if (coordinate == ResizeCoordinate::tf_crop_and_resize && roi.size() != 2 * n)
    fail_rule("a roi of {} numbers does not fit {} axes: two an axis are needed", roi.size(), n);
  if (antialias && mode == ResizeMode::nearest) fail_rule("antialiasing needs linear or cubic mode");
  if (mode != ResizeMode::nearest && out.type.dtype == DType::string) fail_rule("strings cannot be interpolated");
  for (size_t i = 0; i < n; ++i) {
    check_axis(axes[i], context.rank(0));
    if (i > 0 && axes[i] <= axes[i - 1]) fail_rule("the axes are not sorted, or one is named twice");
    if (!scales.empty() && !(scales[i] >= 0 && std::isfinite(scales[i])))
      fail_rule("axis {} has the scale {}", axes[i], scales[i]);
    if (const auto high = sizes[i].upper_bound(); high && *high < 0)
      fail_rule("axis {} is resized to the negative size {}", axes[i], sizes[i].str());
    out.type.shape[static_cast<size_t>(axes[i])] = sizes[i];
  }
  return {out};
}

}  // namespace camshaft::ops
