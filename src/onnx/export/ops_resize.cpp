// Resize.
#include <algorithm>

#include "ir/ops/dynamic.h"
#include "ir/ops/resize.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

namespace {

using ops::ResizeCoordinate;
using ops::ResizeMode;

Attributes how(const ops::Resize& op, const char* nearest) {
  Attributes attributes;
  attributes.text("mode", EnumNames<ResizeMode>::values[static_cast<size_t>(op.mode)]);
  attributes.text("coordinate_transformation_mode",
                  EnumNames<ResizeCoordinate>::values[static_cast<size_t>(op.coordinate)]);
  if (op.mode == ResizeMode::nearest) attributes.text("nearest_mode", nearest);
  if (op.mode == ResizeMode::cubic) attributes.number("cubic_coeff_a", op.cubic_coefficient);
  if (op.exclude_outside) attributes.integer("exclude_outside", 1);
  if (op.coordinate == ResizeCoordinate::tf_crop_and_resize)
    attributes.number("extrapolation_value", op.extrapolation_value);
  if (op.antialias) attributes.integer("antialias", 1);
  return attributes;
}

const char* nearest_of(ExportContext& c, const ops::Resize& op, bool* grows, bool* shrinks) {
  switch (op.nearest) {
    case ops::ResizeNearest::round_prefer_floor:
      return "round_prefer_floor";
    case ops::ResizeNearest::round_prefer_ceil:
      return "round_prefer_ceil";
    case ops::ResizeNearest::floor:
      return "floor";
    case ops::ResizeNearest::ceil:
      return "ceil";
    case ops::ResizeNearest::simple:
      break;
  }
  if (grows == nullptr || (*grows && *shrinks)) {
    if (op.mode != ResizeMode::nearest) return "floor";
    c.unsupported(
        "axes that grow and axes that shrink are rounded in different ways by operator set 10, and not since");
  }
  return *shrinks ? "ceil" : "floor";
}

}  // namespace

void export_as(ExportContext& c, const ops::Resize& op) {
  const Shape& x = c.shape(0);
  bool by_scales = !op.scales.empty(), grows = false, shrinks = false;
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const double scale = op.scales.empty() ? 0 : op.scales[i];  // 0: the sizes say it
    by_scales = by_scales && scale != 0;
    const Dim &from = x[static_cast<size_t>(op.axes[i])], &to = op.sizes[i];
    if (scale != 0) {
      grows = grows || scale > 1;
      shrinks = shrinks || scale < 1;
    } else if (from.is_constant() && to.is_constant()) {
      grows = grows || to.value() > from.value();
      shrinks = shrinks || to.value() < from.value();
    } else {
      grows = shrinks = true;
    }
  }
  Attributes attributes = how(op, nearest_of(c, op, &grows, &shrinks));
  std::string roi, scales, sizes;
  if (by_scales) {
    // One for every axis: that is what most software reads.
    std::vector<float> all(x.size(), 1.F);
    for (size_t i = 0; i < op.axes.size(); ++i) all[static_cast<size_t>(op.axes[i])] = static_cast<float>(op.scales[i]);
    scales = c.constant(Tensor::of<float>(DType::f32, {static_cast<int64_t>(all.size())}, all));
  } else {
    attributes.integers("axes", op.axes);
    sizes = c.sizes(op.sizes);
  }
  if (op.coordinate == ResizeCoordinate::tf_crop_and_resize) {
    const size_t rank = x.size(), count = op.axes.size();
    std::vector<float> region(by_scales ? 2 * rank : 2 * count, 0.F);
    for (size_t i = 0; by_scales && i < rank; ++i) region[rank + i] = 1.F;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = by_scales ? static_cast<size_t>(op.axes[i]) : i;
      region[at] = static_cast<float>(op.roi[i]);
      region[region.size() / 2 + at] = static_cast<float>(op.roi[count + i]);
    }
    roi = c.constant(Tensor::of<float>(DType::f32, {static_cast<int64_t>(region.size())}, region));
  }
  c.result("Resize", {c.input(0), roi, scales, sizes}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::DynamicResize& op) {
  Attributes attributes = how(op.resize, nearest_of(c, op.resize, nullptr, nullptr));
  if (static_cast<int64_t>(op.resize.axes.size()) != c.rank(0)) attributes.integers("axes", op.resize.axes);
  if (op.policy != ops::ResizePolicy::stretch)
    attributes.text("keep_aspect_ratio_policy", EnumNames<ops::ResizePolicy>::values[static_cast<size_t>(op.policy)]);
  std::vector<std::string> inputs = c.inputs();
  inputs.resize(4);
  inputs[3] = c.indices(3);
  // Scales count where both are given.
  if (!inputs[2].empty()) inputs[3].clear();
  c.result("Resize", std::move(inputs), std::move(attributes));
}

}  // namespace camshaft::onnx
