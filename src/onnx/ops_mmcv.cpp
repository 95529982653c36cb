// Operators of MMCV and MMDeploy, which their exporters write for TensorRT, by their documentation.
#include <fmt/format.h>

#include <cmath>

#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/resize.h"
#include "ir/ops/sample.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"
#include "onnx/suppression.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

std::vector<int64_t> mmcv_pair(ConvertContext& c, std::string_view name, int64_t otherwise) {
  const std::vector<int64_t> pair = c.ints_attribute(name).value_or(std::vector<int64_t>{otherwise, otherwise});
  if (pair.size() != 2)
    c.invalid(fmt::format("attribute '{}' has {} numbers, not one for each axis", name, pair.size()));
  return pair;
}

/// The attribute by its newer name, or by its older one.
int64_t mmcv_count(ConvertContext& c, std::string_view name, std::string_view older) {
  return c.int_attribute(name, c.int_attribute(older, 1));
}

Values mmcv_deformed(ConvertContext& c, ValueId offset, ValueId mask, ValueId weight, ValueId bias) {
  const ValueId x = c.input(0);
  if (c.rank(x) != 4 || c.rank(weight) != 4)
    c.invalid(fmt::format("input and weight have {} and {} axes: 4 are expected", c.rank(x), c.rank(weight)));
  const std::vector<int64_t> padding = mmcv_pair(c, "padding", 0);
  const Shape pads{Dim(padding[0]), Dim(padding[1]), Dim(padding[0]), Dim(padding[1])};
  const ops::DeformConv op{mmcv_pair(c, "stride", 1), mmcv_pair(c, "dilation", 1), pads,
                           mmcv_count(c, "groups", "group"), mmcv_count(c, "deform_groups", "deformable_group")};
  return c.result(op, {x, weight, offset, bias, mask});
}

// (input, offset, weight)
Values mmcv_deform_conv(ConvertContext& c) {
  return mmcv_deformed(c, c.input(1), no_value, c.input(2), no_value);
}

// (input, offset, mask, weight, bias?)
Values mmcv_modulated_deform_conv(ConvertContext& c) {
  return mmcv_deformed(c, c.input(1), c.input(2), c.input(3), c.input_or_none(4));
}

Values mmcv_grid_sampler(ConvertContext& c) {
  ops::GridSample op;
  const int64_t mode = c.int_attribute("interpolation_mode", 0), padding = c.int_attribute("padding_mode", 0);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2)
    c.invalid(fmt::format("interpolation_mode is {} and padding_mode {}, not from 0 to 2", mode, padding));
  static constexpr ops::SampleMode modes[] = {ops::SampleMode::linear, ops::SampleMode::nearest,
                                              ops::SampleMode::cubic};
  static constexpr ops::SamplePadding paddings[] = {ops::SamplePadding::zeros, ops::SamplePadding::border,
                                                    ops::SamplePadding::reflection};
  op.mode = modes[mode];
  op.padding = paddings[padding];
  op.align_corners = c.int_attribute("align_corners", 0) != 0;
  return c.result(op, {c.input(0), c.input(1)});
}

/// Column 0 of regions [r, 5]. What is no image counts as the nearest one: nobody else looks at these numbers, and
/// padding may be any.
ValueId mmcv_images(ConvertContext& c, ValueId regions, const Dim& images) {
  if (c.rank(regions) != 2) c.invalid(fmt::format("regions of {} axes: 2 are expected", c.rank(regions)));
  ValueId image = c.cast(c.reshape(slice_axis(c, regions, 1, 0, 1), {c.dim(regions, 0)}), DType::i64);
  image = c.add(F::min, {image, dim_scalar(c, images - 1)});
  return c.add(F::max, {image, c.scalar(DType::i64, 0)});
}

// (input, regions [r, 5], of which column 0 is the image)
Values mmcv_roi_align(ConvertContext& c) {
  if (const std::string mode = c.string_attribute("mode", "avg"); mode != "avg")
    c.unsupported(fmt::format("mode '{}': averages ('avg') are supported", mode));
  ops::RoiAlign op;
  op.half_pixel = c.int_attribute("aligned", 1) != 0;
  op.height = c.int_attribute("output_height", 1);
  op.width = c.int_attribute("output_width", 1);
  op.sampling_ratio = c.int_attribute("sampling_ratio", 0);
  op.spatial_scale = c.float_attribute("spatial_scale", 1);
  const ValueId regions = c.input(1), image = mmcv_images(c, regions, c.dim(c.input(0), 0));
  return c.result(op, {c.input(0), slice_axis(c, regions, 1, 1, 4), image});
}

/// Boxes [r, ..] of images of several scales, the finest first, each of the scale that its `side`, f32[r, 1], asks for.
Values mmcv_pooled_by_size(ConvertContext& c, ValueId boxes, ValueId image, ValueId side, bool are_turned) {
  ops::RoiAlign op;
  op.are_turned = are_turned;
  op.half_pixel = c.int_attribute("aligned", 0) != 0;
  op.height = c.int_attribute("output_height", 7);
  op.width = c.int_attribute("output_width", 7);
  op.sampling_ratio = c.int_attribute("sampling_ratio", 2);
  const std::vector<double> strides = c.floats_attribute("featmap_strides").value_or(std::vector<double>{});
  const size_t levels = c.input_count() - 1;
  if (levels < 1 || strides.size() < levels)
    c.invalid(fmt::format("featmap_strides has {} numbers for {} images", strides.size(), levels));
  const auto number = [&](double value) { return c.scalar(DType::f32, value); };
  const auto finest = static_cast<double>(c.int_attribute("finest_scale", 56));
  const ValueId relative = c.add(F::add, {c.add(F::div, {side, number(finest)}), number(1e-6)});
  const ValueId scale = c.reshape(relative, {c.dim(boxes, 0), Dim(1), Dim(1), Dim(1)});
  ValueId chosen = no_value;
  for (size_t level = 0; level < levels; ++level) {
    op.spatial_scale = 1 / strides[level];
    const ValueId pooled = c.add(op, {c.cast(c.input(1 + level), DType::f32), boxes, image});
    const auto least = number(std::ldexp(1.0, static_cast<int>(level)));
    chosen = level == 0 ? pooled : c.add(F::select, {c.add(F::less, {scale, least}), chosen, pooled});
  }
  const DType dtype = c.dtype(c.input(1));
  return {dtype == DType::f32 ? chosen : c.result_at(0, ops::Cast{dtype}, {chosen})};
}

// (regions [r, 5], images of several scales)
Values mmcv_multi_level_roi_align(ConvertContext& c) {
  if (c.int_attribute("pool_mode", 0) != 1) c.unsupported("pool_mode 0, maxima: averages (1) are supported");
  const double more = c.float_attribute("roi_scale_factor", -1);
  const ValueId regions = c.cast(c.input(0), DType::f32);
  const ValueId image = mmcv_images(c, regions, c.dim(c.input(1), 0));
  const auto number = [&](double value) { return c.scalar(DType::f32, value); };
  const ValueId first = slice_axis(c, regions, 1, 1, 2), last = slice_axis(c, regions, 1, 3, 2);
  const ValueId extent = c.add(F::sub, {last, first});
  const ValueId area = c.add(F::mul, {slice_axis(c, extent, 1, 0, 1), slice_axis(c, extent, 1, 1, 1)});
  ValueId boxes = slice_axis(c, regions, 1, 1, 4);
  if (more > 0) {  // about the centre, in pixels, of which the last one belongs to the region
    const ValueId centre = c.add(F::mul, {c.add(F::add, {first, last}), number(0.5)});
    const ValueId pixels = c.add(F::mul, {c.add(F::add, {extent, number(1)}), number(0.5 * more)});
    const ValueId half = c.add(F::sub, {pixels, number(0.5)});
    boxes = c.add(ops::Concat{1}, {c.add(F::sub, {centre, half}), c.add(F::add, {centre, half})});
  }
  return mmcv_pooled_by_size(c, boxes, image, c.add(F::sqrt, {area}), false);
}

// (regions [r, 6]: image, centre, size and angle, images of several scales)
Values mmcv_multi_level_rotated_roi_align(ConvertContext& c) {
  const double more = c.float_attribute("roi_scale_factor", -1);
  const ValueId regions = c.cast(c.input(0), DType::f32);
  const ValueId image = mmcv_images(c, regions, c.dim(c.input(1), 0));
  ValueId size = slice_axis(c, regions, 1, 3, 2), angle = slice_axis(c, regions, 1, 5, 1);
  const ValueId area = c.add(F::mul, {slice_axis(c, size, 1, 0, 1), slice_axis(c, size, 1, 1, 1)});
  if (more > 0) size = c.add(F::mul, {size, c.scalar(DType::f32, more)});
  if (c.int_attribute("clockwise", 0) > 0) angle = c.add(F::neg, {angle});
  const ValueId boxes = c.add(ops::Concat{1}, {slice_axis(c, regions, 1, 1, 2), size, angle});
  return mmcv_pooled_by_size(c, boxes, image, c.add(F::sqrt, {area}), true);
}

// -> (boxes and their scores [n, keepTopK, 5], their classes i32[n, keepTopK], -1 where there is none, and with
// return_index the places of their boxes, likewise). Boxes that are turned have five numbers, and a sixth is their
// score.
Values mmcv_suppressed(ConvertContext& c, bool are_turned) {
  Suppression how;
  how.score_threshold = c.float_attribute("score_threshold", c.float_attribute("scoreThreshold", 0));
  how.iou_threshold = c.float_attribute("iou_threshold", c.float_attribute("iouThreshold", 0));
  how.most = c.int_attribute("keep_topk", c.int_attribute("keepTopK", -1));
  how.candidates = c.int_attribute("topk", c.int_attribute("topK", 0));
  how.background = c.int_attribute("background_label_id", -1);
  how.counts_pixels = !are_turned && c.int_attribute("is_normalized", c.int_attribute("isNormalized", 1)) == 0;
  how.no_class = -1;
  const ValueId boxes = c.cast(c.input(0), DType::f32);
  if (const Dim& numbers = c.dim(boxes, c.rank(boxes) - 1); !(numbers == Dim(are_turned ? 5 : 4)))
    c.invalid(fmt::format("boxes of {} numbers: {} are expected", numbers.str(), are_turned ? 5 : 4));
  ValueId scores = c.cast(c.input(1), DType::f32);
  if (c.rank(scores) == 4) {  // [n, boxes, 1, classes]
    const Dim inner = c.dim(scores, 2) * c.dim(scores, 3);
    scores = c.reshape(scores, {c.dim(scores, 0), c.dim(scores, 1), inner});
  }
  Values found = suppressed(c, boxes, scores, how);
  if (c.int_attribute("clip_boxes", c.int_attribute("clipBoxes", 1)) != 0 && !how.counts_pixels) {
    const ValueId above = c.add(F::max, {found[1], c.scalar(DType::f32, 0)});
    found[1] = c.add(F::min, {above, c.scalar(DType::f32, 1)});
  }
  const ValueId score = c.reshape(found[2], {c.dim(scores, 0), Dim(how.most), Dim(1)});
  const ValueId both = c.add(ops::Concat{2}, {found[1], score});
  const DType dtype = c.dtype(c.input(0));
  Values results{dtype == DType::f32 ? both : c.result_at(0, ops::Cast{dtype}, {both}), found[3]};
  if (c.int_attribute("return_index", 0) == 0) return results;
  ValueId place = c.cast(found[4], DType::i32);
  if (c.rank(boxes) == 4 && !(c.dim(boxes, 2) == Dim(1))) {  // those of each class have places of their own
    const ValueId count = c.cast(dim_scalar(c, c.dim(scores, 1)), DType::i32);
    place = c.add(F::add, {place, c.add(F::mul, {found[3], count})});
  }
  results.push_back(c.add(F::select, {found[5], place, c.scalar(DType::i32, -1)}));
  return results;
}

Values mmcv_batched_nms(ConvertContext& c) {
  return mmcv_suppressed(c, false);
}

Values mmcv_batched_rotated_nms(ConvertContext& c) {
  return mmcv_suppressed(c, true);
}

// (data [n, m, ..], indices [n, k]) -> [n, k, ..]
Values mmcv_gather_topk(ConvertContext& c) {
  const ValueId indices = c.input(1);
  const int64_t batch_axes = c.rank(indices) - 1;
  if (batch_axes < 0 || batch_axes >= c.rank(c.input(0)))
    c.invalid(fmt::format("data and indices of {} and {} axes do not fit", c.rank(c.input(0)), c.rank(indices)));
  Shape shape = c.shape(indices);
  shape.push_back(Dim(1));
  const ValueId places = c.reshape(c.cast(indices, DType::i64), std::move(shape));
  return c.result(ops::GatherND{batch_axes}, {c.input(0), places});
}

Values mmcv_instance_normalization(ConvertContext& c) {
  return find_converter("", "InstanceNormalization", newest_opset)->convert(c);
}

// TensorRT's plugin, whose heads lie beside each other.
Values mmcv_deformable_attention(ConvertContext& c) {
  const ValueId made = find_converter("TRT", "MultiscaleDeformableAttnPlugin_TRT", newest_opset)->convert(c)[0];
  if (c.rank(made) == 3) return {made};
  return {c.reshape(made, {c.dim(made, 0), c.dim(made, 1), c.dim(made, 2) * c.dim(made, 3)})};
}

// (anchors [a, 4] of one place, [height], [width], of which the sizes count alone) -> [height * width * a, 4]
Values mmcv_grid_priors(ConvertContext& c) {
  const ValueId anchors = c.input(0);
  if (c.rank(anchors) != 2) c.invalid(fmt::format("anchors of {} axes: 2 are expected", c.rank(anchors)));
  const DType dtype = c.dtype(anchors);
  const Dim count = c.dim(anchors, 0), height = c.dim(c.input(1), 0), width = c.dim(c.input(2), 0);
  const auto places = [&](const Dim& size, std::string_view stride, Shape along) {
    const ValueId steps = c.scalar(DType::i64, static_cast<double>(c.int_attribute(stride, 1)));
    const ValueId at = c.cast(c.add(F::mul, {iota(c, size), steps}), dtype);
    return c.add(ops::Expand{{height, width, Dim(1), Dim(1)}}, {c.reshape(at, std::move(along))});
  };
  const ValueId x = places(width, "stride_w", {Dim(1), width, Dim(1), Dim(1)});
  const ValueId y = places(height, "stride_h", {height, Dim(1), Dim(1), Dim(1)});
  const ValueId all =
      c.add(F::add, {c.reshape(anchors, {Dim(1), Dim(1), count, Dim(4)}), c.add(ops::Concat{3}, {x, y, x, y})});
  return {c.reshape(all, {height * width * count, Dim(4)})};
}

// (query [n, t, d], key [n, s, d], value [n, s, d], mask [t, s] or [n, t, s]?) -> (result, probabilities [n, t, s])
Values mmcv_attention(ConvertContext& c) {
  const auto one_head = [&](ValueId x) {
    if (c.rank(x) != 3) c.invalid(fmt::format("an input has {} axes: 3 are expected", c.rank(x)));
    return c.reshape(x, {c.dim(x, 0), Dim(1), c.dim(x, 1), c.dim(x, 2)});
  };
  Attention a;
  a.query = one_head(c.input(0));
  a.key = one_head(c.input(1));
  a.value = one_head(c.input(2));
  if (c.has(3)) {
    const ValueId mask = c.input(3);
    a.biases = {c.rank(mask) == 3 ? one_head(mask) : mask};
  }
  const AttentionResult made = attention(c, a);
  const auto flat = [&](ValueId x) { return c.reshape(x, {c.dim(x, 0), c.dim(x, 2), c.dim(x, 3)}); };
  return {flat(made.y), flat(made.probabilities)};
}

Values mmcv_bicubic_interpolate(ConvertContext& c) {
  const ValueId x = c.input(0);
  const std::vector<double> factors = c.floats_attribute("scale_factor").value_or(std::vector<double>{});
  if (c.rank(x) != 4 || factors.size() != 2)
    c.invalid(fmt::format("{} axes and {} numbers in scale_factor: 4 and 2 are expected", c.rank(x), factors.size()));
  ops::Resize op;
  op.mode = ops::ResizeMode::cubic;
  op.coordinate = c.int_attribute("align_corners", 1) != 0 ? ops::ResizeCoordinate::align_corners
                                                           : ops::ResizeCoordinate::half_pixel;
  op.axes = {2, 3};
  op.scales = {0, 0};
  for (const int64_t axis : {2, 3}) {
    const double factor = factors[static_cast<size_t>(axis - 2)];
    constexpr double most = 1 << 20;
    if (!(factor > 0 && factor <= most))
      c.invalid(fmt::format("the scale factor {} is not above 0 and at most {}", factor, most));
    const auto whole = static_cast<int64_t>(factor);
    const Dim& size = c.dim(x, axis);
    op.sizes.push_back(factor == static_cast<double>(whole)
                           ? size * whole
                           : Dim(ops::scaled_size(c.static_size(size, "a size that is scaled by a fraction"), factor)));
  }
  op = ops::without_unchanged_axes(op, c.shape(x));
  return op.axes.empty() ? Values{x} : c.result(std::move(op), {x});
}

constexpr Converter mmcv_table[] = {
    {"GatherTopk", mmcv_gather_topk},
    {"GridPriorsTRT", mmcv_grid_priors},
    {"MMCVDeformConv2d", mmcv_deform_conv},
    {"MMCVInstanceNormalization", mmcv_instance_normalization},
    {"MMCVModulatedDeformConv2d", mmcv_modulated_deform_conv},
    {"MMCVMultiLevelRoiAlign", mmcv_multi_level_roi_align},
    {"MMCVMultiLevelRotatedRoiAlign", mmcv_multi_level_rotated_roi_align},
    {"MMCVMultiScaleDeformableAttention", mmcv_deformable_attention},
    {"MMCVRoiAlign", mmcv_roi_align},
    {"ScaledDotProductAttentionTRT", mmcv_attention},
    {"TRTBatchedBEVNMS", mmcv_batched_rotated_nms},  // of boxes seen from above
    {"TRTBatchedNMS", mmcv_batched_nms},
    {"TRTBatchedRotatedNMS", mmcv_batched_rotated_nms},
    {"TRTBicubicInterpolate", mmcv_bicubic_interpolate},
    {"TRTInstanceNormalization", mmcv_instance_normalization},
    {"grid_sampler", mmcv_grid_sampler},
};

}  // namespace

std::span<const Converter> mmcv_converters() {
  return mmcv_table;
}

}  // namespace camshaft::onnx
