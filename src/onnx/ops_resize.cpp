// Resize and Upsample.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ir/ops/dynamic.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

namespace {

using ops::ResizeCoordinate;
using ops::ResizeMode;
using ops::ResizeNearest;
using ops::ResizePolicy;

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
  if (name == "tf_half_pixel_for_nn") return ResizeCoordinate::tf_half_pixel_for_nn;
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

ResizePolicy policy_of(ConvertContext& c) {
  const std::string name = c.string_attribute("keep_aspect_ratio_policy", "stretch");
  if (name == "stretch") return ResizePolicy::stretch;
  if (name == "not_larger") return ResizePolicy::not_larger;
  if (name == "not_smaller") return ResizePolicy::not_smaller;
  c.invalid(fmt::format("keep_aspect_ratio_policy '{}' is unknown", name));
}

// floor(size · scale); nullopt for a symbolic size and a scale that is not a simple fraction like 2, 0.5, 1/3.
std::optional<Dim> scaled(ConvertContext& c, const Dim& size, double scale) {
  if (!(scale > 0) || !std::isfinite(scale)) c.invalid(fmt::format("the scale {} is not positive", scale));
  if (const auto n = size.as_constant()) return ops::scaled_size(*n, scale);
  constexpr int largest_denominator = 64;
  for (int denominator = 1; denominator <= largest_denominator; ++denominator) {
    const double numerator = std::round(scale * denominator);
    if (numerator >= 1 && numerator < 0x1p62 && std::abs(numerator / denominator - scale) <= 1e-7 * scale)
      return floor_div(size * Dim(static_cast<int64_t>(numerator)), denominator);
  }
  return std::nullopt;
}

// What says how large the result is: those of the inputs that count; an empty tensor also means "not given".
struct ResizeParameters {
  ValueId roi = no_value, scales = no_value, sizes = no_value;
};

// Sets what is known of sizes, scales and region; false when that is not all.
bool resolve(ConvertContext& c, const ResizeParameters& given, ResizePolicy policy, ops::Resize& op) {
  const size_t n = op.axes.size();
  const Shape& shape = c.shape(c.input(0));
  const auto size = [&](size_t i) { return shape[static_cast<size_t>(op.axes[i])]; };
  if (op.coordinate == ResizeCoordinate::tf_crop_and_resize) {
    if (given.roi == no_value) c.invalid("the region of interest is missing");
    const auto roi = c.constant(given.roi);
    if (!roi) return false;
    op.roi = roi->to_doubles();
    if (op.roi.size() != 2 * n) c.invalid(fmt::format("{} numbers of roi for {} axes", op.roi.size(), n));
  }
  if (given.scales != no_value) {
    const auto scales = c.constant(given.scales);
    if (!scales) return false;
    op.scales = scales->to_doubles();
    if (op.scales.size() != n) c.invalid(fmt::format("{} scales for {} axes", op.scales.size(), n));
    for (size_t i = 0; i < n; ++i) {
      const auto to = scaled(c, size(i), op.scales[i]);
      if (!to) return false;
      op.sizes.push_back(*to);
    }
    return true;
  }
  const auto sizes = c.content(given.sizes);
  if (!sizes) return false;
  if (sizes->size() != n) c.invalid(fmt::format("{} sizes for {} axes", sizes->size(), n));
  op.sizes = *sizes;
  op.scales.assign(n, 0);
  if (policy == ResizePolicy::stretch) return true;
  Dims dims;
  for (size_t i = 0; i < n; ++i)
    if (!size(i).is_constant() || !op.sizes[i].is_constant()) return false;
  for (const Dim& d : shape) dims.push_back(d.as_constant().value_or(0));
  ops::keep_aspect_ratio(op, dims, policy);
  return true;
}

Values resized(ConvertContext& c, const ops::Resize& op, const ResizeParameters& given, ResizePolicy policy) {
  const ValueId x = c.input(0);
  if (given.scales == no_value && given.sizes == no_value) c.invalid("neither scales nor sizes are given");
  ops::Resize known = op;
  if (resolve(c, given, policy, known)) {
    known = ops::without_unchanged_axes(known, c.shape(x));
    return known.axes.empty() ? Values{x} : c.result(std::move(known), {x});
  }
  return c.result(ops::DynamicResize{op, policy}, {x, given.roi, given.scales, given.sizes});
}

Values resize(ConvertContext& c) {
  const int64_t rank = c.rank(c.input(0));
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
  const auto given = [&](size_t i) {
    return c.has(i) && !(product(c.shape(c.input(i))) == Dim(0)) ? c.input(i) : no_value;
  };
  return resized(c, op, {given(1), given(2), given(3)}, policy_of(c));
}

// Upsample, and Resize of operator set 10, name no coordinates: runtimes agree on output/scale, rounded down where an
// axis grows and up where it shrinks (as the standard's own case of that version has it).
Values upsample(ConvertContext& c) {
  ops::Resize op;
  op.mode = mode_of(c);
  op.coordinate = ResizeCoordinate::asymmetric;
  op.nearest = ResizeNearest::simple;
  op.axes.resize(static_cast<size_t>(c.rank(c.input(0))));
  std::iota(op.axes.begin(), op.axes.end(), 0);
  ValueId scales = no_value;
  if (const auto list = c.floats_attribute("scales")) {
    const std::vector<float> values(list->begin(), list->end());
    scales = c.add_constant(Tensor::of<float>(DType::f32, {static_cast<int64_t>(values.size())}, values));
  } else {
    scales = c.input(1);
  }
  return resized(c, op, {no_value, scales, no_value}, ResizePolicy::stretch);
}

constexpr Converter resize_table[] = {
    {"Resize", upsample, 10},
    {"Resize", resize, 11},
    {"Upsample", upsample, 7},
};

}  // namespace

std::span<const Converter> resize_converters() {
  return resize_table;
}

}  // namespace camshaft::onnx
