// Operators of MMCV and MMDeploy, which their exporters write for TensorRT, by their documentation.
#include <fmt/format.h>

#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/sample.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
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
  const ValueId regions = c.input(1);
  if (c.rank(regions) != 2) c.invalid(fmt::format("regions of {} axes: 2 are expected", c.rank(regions)));
  // What is no image counts as the nearest one: nobody else looks at these numbers, and padding may be any.
  ValueId image = c.cast(c.reshape(slice_axis(c, regions, 1, 0, 1), {c.dim(regions, 0)}), DType::i64);
  image = c.add(F::min, {image, dim_scalar(c, c.dim(c.input(0), 0) - 1)});
  image = c.add(F::max, {image, c.scalar(DType::i64, 0)});
  return c.result(op, {c.input(0), slice_axis(c, regions, 1, 1, 4), image});
}

// -> (boxes and their scores [n, keepTopK, 5], their classes i32[n, keepTopK], -1 where there is none)
Values mmcv_batched_nms(ConvertContext& c) {
  if (c.int_attribute("return_index", 0) != 0) c.unsupported("return_index: which boxes they were is not given");
  Suppression how;
  how.score_threshold = c.float_attribute("score_threshold", c.float_attribute("scoreThreshold", 0));
  how.iou_threshold = c.float_attribute("iou_threshold", c.float_attribute("iouThreshold", 0));
  how.most = c.int_attribute("keep_topk", c.int_attribute("keepTopK", -1));
  how.candidates = c.int_attribute("topk", c.int_attribute("topK", 0));
  how.background = c.int_attribute("background_label_id", -1);
  how.counts_pixels = c.int_attribute("is_normalized", c.int_attribute("isNormalized", 1)) == 0;
  how.no_class = -1;
  const ValueId boxes = c.cast(c.input(0), DType::f32);
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
  return {dtype == DType::f32 ? both : c.result_at(0, ops::Cast{dtype}, {both}), found[3]};
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

constexpr Converter mmcv_table[] = {
    {"GatherTopk", mmcv_gather_topk},
    {"MMCVDeformConv2d", mmcv_deform_conv},
    {"MMCVInstanceNormalization", mmcv_instance_normalization},
    {"MMCVModulatedDeformConv2d", mmcv_modulated_deform_conv},
    {"MMCVMultiScaleDeformableAttention", mmcv_deformable_attention},
    {"MMCVRoiAlign", mmcv_roi_align},
    {"TRTBatchedNMS", mmcv_batched_nms},
    {"TRTInstanceNormalization", mmcv_instance_normalization},
    {"grid_sampler", mmcv_grid_sampler},
};

}  // namespace

std::span<const Converter> mmcv_converters() {
  return mmcv_table;
}

}  // namespace camshaft::onnx
