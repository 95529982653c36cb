// Interpolating resize.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

enum class ResizeMode : uint8_t { nearest, linear, cubic };
enum class ResizeCoordinate : uint8_t {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_crop_and_resize,
  tf_half_pixel_for_nn,
};
/// `simple`: floor where the axis grows, ceil where it shrinks.
enum class ResizeNearest : uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil, simple };

/// ONNX's Resize with sizes known as expressions. `axes` are the resized axes (sorted), `sizes` their output sizes, and
/// `scales` their scale factors, or 0 where the scale is sizes/input size. `roi` (2 numbers an axis: all starts, then
/// all ends) is for tf_crop_and_resize.
struct Resize {
  static constexpr std::string_view name = "resize";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::carries,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::depends,
                                 .strided_operands = 0};
  ResizeMode mode = ResizeMode::nearest;
  ResizeCoordinate coordinate = ResizeCoordinate::half_pixel;
  ResizeNearest nearest = ResizeNearest::round_prefer_floor;
  std::vector<int64_t> axes = {};
  Shape sizes = {};
  std::vector<double> scales = {};
  std::vector<double> roi = {};
  double cubic_coefficient = -0.75;
  bool exclude_outside = false;
  double extrapolation_value = 0;
  bool antialias = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("mode", self.mode);
    visit("coordinate", self.coordinate);
    visit("nearest", self.nearest);
    visit("axes", self.axes);
    visit("sizes", self.sizes);
    visit("scales", self.scales);
    visit("roi", self.roi);
    visit("cubic_coefficient", self.cubic_coefficient);
    visit("exclude_outside", self.exclude_outside);
    visit("extrapolation_value", self.extrapolation_value);
    visit("antialias", self.antialias);
  }
  bool operator==(const Resize&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Resize> permuted(const std::vector<int64_t>& order) const;
  bool selects() const { return mode == ResizeMode::nearest && coordinate != ResizeCoordinate::tf_crop_and_resize; }
  size_t sliced_operands(const std::vector<size_t>& ranks) const;
};

/// How the given sizes count where the aspect ratio is kept: as they are, as upper or as lower limits.
enum class ResizePolicy : uint8_t { stretch, not_larger, not_smaller };

/// floor(size · scale), in f32 as ONNX's scales are. Throws Error(invalid_argument) unless the scale is positive.
int64_t scaled_size(int64_t size, double scale);
/// Gives all axes of `op`, whose sizes are numbers, one scale: the smallest (not_larger) or the largest (not_smaller).
/// `dims` are the input's. Throws Error(invalid_argument) for an axis without elements.
void keep_aspect_ratio(Resize& op, const Dims& dims, ResizePolicy policy);
/// The same with sorted axes, and without those that keep their size; cropping also changes axes of the same size.
/// `shape` is the input's; scales are given, one an axis.
Resize without_unchanged_axes(const Resize& op, const Shape& shape);

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::ResizeMode> {
  static constexpr std::string_view values[] = {"nearest", "linear", "cubic"};
};
template <>
struct EnumNames<ops::ResizeCoordinate> {
  static constexpr std::string_view values[] = {"half_pixel",          "half_pixel_symmetric", "pytorch_half_pixel",
                                                "align_corners",       "asymmetric",           "tf_crop_and_resize",
                                                "tf_half_pixel_for_nn"};
};
template <>
struct EnumNames<ops::ResizePolicy> {
  static constexpr std::string_view values[] = {"stretch", "not_larger", "not_smaller"};
};
template <>
struct EnumNames<ops::ResizeNearest> {
  static constexpr std::string_view values[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"};
};
}  // namespace camshaft
