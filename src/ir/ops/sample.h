// Operators that read images at positions between the pixels.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

enum class SampleMode : uint8_t { linear, nearest, cubic };
enum class SamplePadding : uint8_t { zeros, border, reflection };

/// (x[n, c, in...], grid[n, out..., spatial rank]) -> [n, c, out...]: ONNX's GridSample over any number of spatial
/// axes. The grid's last axis runs from the last spatial axis to the first, in [-1, 1] across the image; with
/// align_corners those are the outer pixels' centres, else their outer edges.
struct GridSample {
  static constexpr std::string_view name = "grid_sample";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  SampleMode mode = SampleMode::linear;
  SamplePadding padding = SamplePadding::zeros;
  bool align_corners = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("mode", self.mode);
    visit("padding", self.padding);
    visit("align_corners", self.align_corners);
  }
  bool operator==(const GridSample&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x[n, c, h, w], regions[r, 4] as x1, y1, x2, y2, batch_indices[r]) -> [r, c, height, width]: averages or maxima of
/// bilinear samples in each bin of each region (Mask R-CNN, https://arxiv.org/abs/1703.06870). Of a sample, the maximum
/// takes the largest of the four weighted pixels, as ONNX defines it. Regions that are turned, [r, 5], are a centre (x,
/// y), a width and a height, of which each is one pixel at least, and an angle from x to -y.
struct RoiAlign {
  static constexpr std::string_view name = "roi_align";
  static constexpr Traits traits = opaque_traits;
  bool maximum = false;
  bool half_pixel = true;
  int64_t height = 1;
  int64_t width = 1;
  int64_t sampling_ratio = 0;  ///< samples along each side of a bin; 0: as many as the bin has pixels
  double spatial_scale = 1;
  bool are_turned = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("maximum", self.maximum);
    visit("half_pixel", self.half_pixel);
    visit("height", self.height);
    visit("width", self.width);
    visit("sampling_ratio", self.sampling_ratio);
    visit("spatial_scale", self.spatial_scale);
    visit("are_turned", self.are_turned);
  }
  bool operator==(const RoiAlign&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x[n, c, h, w], regions[r, 5] as batch, x1, y1, x2, y2) -> [r, c, height, width]: the maximum over each bin of the
/// region, rounded to whole pixels (Fast R-CNN, https://arxiv.org/abs/1504.08083). Empty bins give 0.
struct MaxRoiPool {
  static constexpr std::string_view name = "max_roi_pool";
  static constexpr Traits traits = opaque_traits;
  int64_t height = 1;
  int64_t width = 1;
  double spatial_scale = 1;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("height", self.height);
    visit("width", self.width);
    visit("spatial_scale", self.spatial_scale);
  }
  bool operator==(const MaxRoiPool&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x[n, c, h, w], weights[m, c/groups, kh, kw], offsets[n, 2·g·kh·kw, oh, ow], bias[m]?, mask[n, g·kh·kw, oh, ow]?) ->
/// [n, m, oh, ow]: a convolution whose taps are moved by offsets (y, x) and weighted by a mask; bilinear, zeros outside
/// (https://arxiv.org/abs/1811.11168).
struct DeformConv {
  static constexpr std::string_view name = "deform_conv";
  static constexpr Traits traits{.kind = OpKind::contraction,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = 0,
                                 .widening = Widening::none,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  std::vector<int64_t> strides, dilations;
  Shape pads;
  int64_t groups = 1;
  int64_t offset_groups = 1;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("strides", self.strides);
    visit("dilations", self.dilations);
    visit("pads", self.pads);
    visit("groups", self.groups);
    visit("offset_groups", self.offset_groups);
  }
  bool operator==(const DeformConv&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  double flops(const SizeContext&) const;
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::SampleMode> {
  static constexpr std::string_view values[] = {"linear", "nearest", "cubic"};
};
template <>
struct EnumNames<ops::SamplePadding> {
  static constexpr std::string_view values[] = {"zeros", "border", "reflection"};
};
}  // namespace camshaft
