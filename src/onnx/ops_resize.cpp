// Resize and Upsample.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/converters.h"
#include "ops/resize.h"

namespace camshaft::onnx {

namespace {

using ops::ResizeCoordinate;
using ops::ResizeMode;
using ops::ResizeNearest;

ResizeMode mode_of(ConvertContext& c) {
  const std::string mode = c.string_attribute("mode", "nearest");
  if (mode == "nearest") return ResizeMode::nearest;
  if (mode == "linear" || mode == "bilinear") return ResizeMode::linear;
  if (mode == "cubic") return ResizeMode::cubic;
  c.invalid(fmt::format("mode '{}' is unknown", mode));
}

ResizeCoordinate coordinate_of(ConvertContext& c) {
  const std::string name = c.string_attribute("coordinate_transformation_mode", "half_pixel");
  if (name == "half_pixel") return ResizeCoordinate::half_pixel;
  if (name == "half_pixel_symmetric") return ResizeCoordinate::half_pixel_symmetric;
  if (name == "pytorch_half_pixel") return ResizeCoordinate::pytorch_half_pixel;
  if (name == "align_corners") return ResizeCoordinate::align_corners;
  if (name == "asymmetric") return ResizeCoordinate::asymmetric;
  if (name == "tf_crop_and_resize") return ResizeCoordinate::tf_crop_and_resize;
  if (name == "tf_half_pixel_for_nn") c.unsupported("coordinate_transformation_mode 'tf_half_pixel_for_nn'");
  c.invalid(fmt::format("coordinate_transformation_mode '{}' is unknown", name));
}

ResizeNearest nearest_of(ConvertContext& c) {
  const std::string name = c.string_attribute("nearest_mode", "round_prefer_floor");
  if (name == "round_prefer_floor") return ResizeNearest::round_prefer_floor;
  if (name == "round_prefer_ceil") return ResizeNearest::round_prefer_ceil;
  if (name == "floor") return ResizeNearest::floor;
  if (name == "ceil") return ResizeNearest::ceil;
  c.invalid(fmt::format("nearest_mode '{}' is unknown", name));
}

// floor(size · scale). A symbolic size needs a scale that is a fraction: 2, 0.5, 1/3.
Dim scaled_size(ConvertContext& c, const Dim& size, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) c.invalid(fmt::format("the scale {} is not positive", scale));
  if (const auto n = size.as_constant())
    return static_cast<int64_t>(std::floor(static_cast<float>(*n) * static_cast<float>(scale)));
  constexpr int largest_denominator = 64;
  for (int denominator = 1; denominator <= largest_denominator; ++denominator) {
    const double numerator = std::round(scale * denominator);
    if (numerator >= 1 && std::abs(numerator / denominator - scale) <= 1e-7 * scale)
      return floor_div(size * Dim(static_cast<int64_t>(numerator)), denominator);
  }
  c.unsupported(fmt::format("the scale {} of a dynamic size ({}) is not a simple fraction", scale, size.str()));
}

// Keeps the axes that change. Cropping also changes axes of the same size.
Values finish(ConvertContext& c, ops::Resize op, const std::vector<double>& roi) {
  const ValueId x = c.input(0);
  const bool crops = op.coordinate == ResizeCoordinate::tf_crop_and_resize;
  std::vector<size_t> order(op.axes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return op.axes[a] < op.axes[b]; });
  ops::Resize kept = op;
  kept.axes.clear();
  kept.sizes.clear();
  kept.scales.clear();
  std::vector<double> ends;
  for (const size_t i : order) {
    const bool same = op.sizes[i] == c.dim(x, op.axes[i]) && (op.scales[i] == 0 || op.scales[i] == 1);
    if (same && !crops) continue;
    kept.axes.push_back(op.axes[i]);
    kept.sizes.push_back(op.sizes[i]);
    kept.scales.push_back(op.scales[i]);
    if (crops) {
      kept.roi.push_back(roi[i]);
      ends.push_back(roi[op.axes.size() + i]);
    }
  }
  kept.roi.insert(kept.roi.end(), ends.begin(), ends.end());
  return kept.axes.empty() ? Values{x} : c.result(std::move(kept), {x});
}

void set_scales(ConvertContext& c, ops::Resize& op, const std::vector<double>& scales) {
  if (scales.size() != op.axes.size()) c.invalid(fmt::format("{} scales for {} axes", scales.size(), op.axes.size()));
  op.scales = scales;
  for (size_t i = 0; i < scales.size(); ++i)
    op.sizes.push_back(scaled_size(c, c.dim(c.input(0), op.axes[i]), scales[i]));
}

// Sizes with the aspect ratio kept: one scale for all axes, the smallest (not_larger) or largest (not_smaller).
void keep_aspect_ratio(ConvertContext& c, ops::Resize& op, const std::string& policy) {
  if (policy != "not_larger" && policy != "not_smaller")
    c.invalid(fmt::format("keep_aspect_ratio_policy '{}' is unknown", policy));
  double scale = 0;
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const auto in = static_cast<double>(c.static_size(c.dim(c.input(0), op.axes[i]), "a size whose ratio is kept"));
    const double s = static_cast<double>(c.static_size(op.sizes[i], "a size whose ratio is kept")) / in;
    scale = i == 0 ? s : policy == "not_larger" ? std::min(scale, s) : std::max(scale, s);
  }
  for (size_t i = 0; i < op.axes.size(); ++i) {
    const auto in = static_cast<double>(c.dim(c.input(0), op.axes[i]).value());
    op.sizes[i] = static_cast<int64_t>(std::floor(scale * in + 0.5));
    op.scales[i] = scale;
  }
}

Values resize(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  ops::Resize op;
  op.mode = mode_of(c);
  op.coordinate = coordinate_of(c);
  op.nearest = nearest_of(c);
  op.cubic_coefficient = c.float_attribute("cubic_coeff_a", -0.75);
  op.exclude_outside = c.int_attribute("exclude_outside", 0) != 0;
  op.extrapolation_value = c.float_attribute("extrapolation_value", 0);
  op.antialias = c.int_attribute("antialias", 0) != 0;
  std::vector<int64_t> all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  op.axes = c.axes(c.ints_attribute("axes").value_or(all), rank);

  // An empty tensor also means "not given".
  const auto given = [&](size_t i) { return c.has(i) && !(product(c.shape(c.input(i))) == Dim(0)); };
  std::vector<double> roi;
  if (op.coordinate == ResizeCoordinate::tf_crop_and_resize) {
    roi = c.doubles(c.input(1), "the region of interest");
    if (roi.size() != 2 * op.axes.size())
      c.invalid(fmt::format("{} numbers of roi for {} axes", roi.size(), op.axes.size()));
  }
  if (given(2)) {
    set_scales(c, op, c.doubles(c.input(2), "the scales"));
  } else if (given(3)) {
    const auto content = c.content(c.input(3));
    if (!content) c.unsupported("the sizes must be known when the model is built");
    if (content->size() != op.axes.size())
      c.invalid(fmt::format("{} sizes for {} axes", content->size(), op.axes.size()));
    op.sizes = *content;
    op.scales.assign(op.axes.size(), 0);
    const std::string policy = c.string_attribute("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") keep_aspect_ratio(c, op, policy);
  } else {
    c.invalid("neither scales nor sizes are given");
  }
  return finish(c, std::move(op), roi);
}

// Upsample, and Resize of operator set 10, name no coordinates: runtimes agree on output/scale, rounded down.
Values upsample(ConvertContext& c) {
  ops::Resize op;
  op.mode = mode_of(c);
  op.coordinate = ResizeCoordinate::asymmetric;
  op.nearest = ResizeNearest::floor;
  op.axes.resize(static_cast<size_t>(c.rank(c.input(0))));
  std::iota(op.axes.begin(), op.axes.end(), 0);
  const auto scales = c.floats_attribute("scales");
  set_scales(c, op, scales ? *scales : c.doubles(c.input(1), "the scales"));
  return finish(c, std::move(op), {});
}

constexpr Converter table[] = {
    {"Resize", upsample, 10},
    {"Resize", resize, 11},
    {"Upsample", upsample, 7},
};

}  // namespace

std::span<const Converter> resize_converters() {
  return table;
}

}  // namespace camshaft::onnx
