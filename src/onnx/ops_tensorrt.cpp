// TensorRT's own plugins that models name, as operators of ours: by the documentation of its open plugins. Exporters
// write them into the domain "TRT", or into ONNX's own.
#include <fmt/format.h>

#include "ir/ops/generate.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/sample.h"
#include "ir/ops/select.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"
#include "onnx/suppression.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

/// The node's outputs, boxes and scores in the type that it was given.
Values as_outputs(ConvertContext& c, const Values& made, DType dtype) {
  Values outputs;
  for (size_t i = 0; i < c.output_count() && i < made.size(); ++i) {
    const bool is_number = i == 1 || i == 2;
    outputs.push_back(is_number && dtype != c.dtype(made[i]) ? c.result_at(i, ops::Cast{dtype}, {made[i]}) : made[i]);
  }
  return outputs;
}

/// Boxes [b, n, 4] or [b, n, classes, 4], as far from anchors [1 or b, n, 4] as a network says: corners are added;
/// centres are counted in an anchor's size, and sizes are its size times an exponential.
ValueId decoded(ConvertContext& c, ValueId boxes, ValueId anchors, bool has_centres) {
  if (c.rank(anchors) != 3) c.invalid(fmt::format("anchors of {} axes: 3 are expected", c.rank(anchors)));
  const int64_t last = c.rank(boxes) - 1;
  if (last == 3) anchors = c.reshape(anchors, {c.dim(anchors, 0), c.dim(anchors, 1), Dim(1), Dim(4)});
  if (!has_centres) return c.add(F::add, {boxes, anchors});
  const ValueId shift = slice_axis(c, boxes, last, 0, 2), growth = slice_axis(c, boxes, last, 2, 2);
  const ValueId centre = slice_axis(c, anchors, last, 0, 2), size = slice_axis(c, anchors, last, 2, 2);
  return c.add(ops::Concat{last},
               {c.add(F::add, {c.add(F::mul, {shift, size}), centre}), c.add(F::mul, {size, c.add(F::exp, {growth})})});
}

Values efficient_nms(ConvertContext& c) {
  Suppression how;
  how.score_threshold = c.float_attribute("score_threshold", 0.25);
  how.iou_threshold = c.float_attribute("iou_threshold", 0.45);
  how.most = c.int_attribute("max_output_boxes", 100);
  how.background = c.int_attribute("background_class", -1);
  how.is_agnostic = c.int_attribute("class_agnostic", 0) != 0;
  ValueId boxes = c.cast(c.input(0), DType::f32), scores = c.cast(c.input(1), DType::f32);
  if (c.int_attribute("score_activation", 0) != 0) scores = c.add(F::sigmoid, {scores});
  const int64_t coding = c.int_attribute("box_coding", 0);
  if (coding != 0 && coding != 1) c.invalid(fmt::format("box_coding is {}, not 0 or 1", coding));
  if (c.has(2)) boxes = decoded(c, boxes, c.cast(c.input(2), DType::f32), coding == 1);
  if (coding == 1) boxes = corners_of_centres(c, boxes);
  return as_outputs(c, suppressed(c, boxes, scores, how), c.dtype(c.input(0)));
}

// What ONNX's NonMaxSuppression gives, i32[rows, 3], of a fixed number of rows: as many for each image as for a class.
// Behind those that there are stands the last one again and again, and -1 where there is none.
Values efficient_nms_onnx(ConvertContext& c) {
  Suppression how;
  how.score_threshold = c.float_attribute("score_threshold", 0.5);
  how.iou_threshold = c.float_attribute("iou_threshold", 0.5);
  how.most = c.int_attribute("max_output_boxes_per_class");
  ValueId boxes = c.cast(c.input(0), DType::f32);
  const ValueId scores = c.cast(c.input(1), DType::f32);
  if (c.int_attribute("center_point_box", 0) != 0) boxes = corners_of_centres(c, boxes);
  const Values found = suppressed(c, boxes, scores, how);
  const Dim batch = c.dim(scores, 0), count = batch * how.most;
  const ValueId image = c.add(ops::Expand{{batch, Dim(how.most)}}, {c.reshape(iota(c, batch), {batch, Dim(1)})});
  Values columns{image, c.cast(found[3], DType::i64), found[4]};
  for (ValueId& column : columns) column = c.reshape(column, {count, Dim(1)});
  const ValueId rows = c.add(ops::Concat{1}, columns), places = iota(c, count);
  const auto number = [&](int64_t value) { return c.scalar(DType::i64, static_cast<double>(value)); };
  // Those that there are come to the front, as they are ordered.
  const ValueId is_there = c.reshape(found[5], {count});
  const ValueId before = c.add(F::sub, {dim_scalar(c, count), places});
  const ValueId rank = c.add(F::select, {is_there, before, number(0)});
  const ValueId all = c.add(ops::DimsTensor{{count}, DType::i64, false}, {});
  const ValueId order = c.add_all(ops::TopK{0, true}, {rank, all}, 2)[1];
  const ValueId total = c.add(ops::Reduce{ops::ReduceKind::sum, {0}, true}, {c.cast(is_there, DType::i64)});
  const ValueId last = c.add(F::max, {c.add(F::sub, {total, number(1)}), number(0)});
  const ValueId taken = c.add(ops::Gather{0}, {order, c.add(F::min, {places, last})});
  const ValueId chosen = c.add(ops::Gather{0}, {rows, taken});
  const ValueId known = c.add(F::select, {c.add(F::less, {number(0), total}), chosen, number(-1)});
  return {c.cast(known, DType::i32)};
}

Values batched_nms(ConvertContext& c) {
  Suppression how;
  how.score_threshold = c.float_attribute("scoreThreshold", 0);
  how.iou_threshold = c.float_attribute("iouThreshold", 0);
  how.most = c.int_attribute("keepTopK");
  how.candidates = c.int_attribute("topK");
  how.background = c.int_attribute("backgroundLabelId", -1);
  how.counts_pixels = c.int_attribute("isNormalized", 1) == 0;
  how.no_class = -1;
  how.class_dtype = DType::f32;
  const ValueId boxes = c.cast(c.input(0), DType::f32), scores = c.cast(c.input(1), DType::f32);
  Values made = suppressed(c, boxes, scores, how);
  if (c.int_attribute("clipBoxes", 1) != 0) {
    const ValueId above = c.add(F::max, {made[1], c.scalar(DType::f32, 0)});
    made[1] = c.add(F::min, {above, c.scalar(DType::f32, 1)});
  }
  Values outputs = as_outputs(c, made, c.dtype(c.input(0)));
  return outputs;
}

Values roi_align_trt(ConvertContext& c) {
  ops::RoiAlign op;
  op.maximum = c.int_attribute("mode", 1) == 0;
  op.half_pixel = c.int_attribute("coordinate_transformation_mode", 1) != 0;
  op.height = c.int_attribute("output_height", 1);
  op.width = c.int_attribute("output_width", 1);
  op.sampling_ratio = c.int_attribute("sampling_ratio", 0);
  op.spatial_scale = c.float_attribute("spatial_scale", 1);
  return c.result(op, {c.input(0), c.input(1), c.cast(c.input(2), DType::i64)});
}

/// Of a PyramidROIAlign: how coordinates are counted.
struct PyramidCoordinates {
  int64_t transform = 2;  ///< -1: between centres of the outer pixels; 0: as they are; 1, 2: with half a pixel
  int64_t samples = 0;    ///< along each side of a bin; 0: as many as it has pixels
  int64_t pooled = 7;
};

/// Where regions begin and end along an axis of `size` pixels, as a RoiAlign with half_pixel takes it; `begin` and
/// `end` are parts of the image.
std::pair<ValueId, ValueId> in_pixels(ConvertContext& c, ValueId begin, ValueId end, const Dim& size,
                                      const PyramidCoordinates& how) {
  const auto number = [&](double value) { return c.scalar(DType::f32, value); };
  const ValueId pixels = c.cast(dim_scalar(c, how.transform < 0 ? size - 1 : size), DType::f32);
  const auto pooled = static_cast<double>(how.pooled);
  begin = c.add(F::mul, {begin, pixels});
  ValueId extent = c.add(F::sub, {c.add(F::mul, {end, pixels}), begin});
  if (how.transform < 0) extent = c.add(F::mul, {extent, number(pooled / (pooled - 1))});
  if (how.transform < 2) begin = c.add(F::add, {begin, number(0.5)});
  if (how.transform < 1) {  // samples stand where their parts of a bin begin
    const double half = 0.5 / pooled / static_cast<double>(how.samples);
    begin = c.add(F::sub, {begin, c.add(F::mul, {extent, number(half)})});
  }
  // An empty region is one sample a bin.
  return {begin, c.add(F::add, {begin, c.add(F::max, {extent, number(1e-4)})})};
}

// (regions [n, r, 4], images of four scales, the finest first) -> [n, r, c, pooled, pooled]: each region of the scale
// that its size asks for.
Values pyramid_roi_align(ConvertContext& c) {
  const bool is_legacy = c.int_attribute("legacy", 0) != 0;
  const auto choice = [&](std::string_view name, int64_t otherwise, int64_t legacy) {
    const int64_t given = c.int_attribute(name, otherwise);
    return is_legacy ? legacy : given;
  };
  PyramidCoordinates how;
  how.pooled = c.int_attribute("pooled_size", 7);
  how.transform = choice("roi_coords_transform", 2, -1);
  how.samples = choice("sampling_ratio", 0, 1);
  const bool are_pixels = choice("roi_coords_absolute", 1, 0) != 0, swaps = choice("roi_coords_swap", 0, 1) != 0;
  const double more = choice("roi_coords_plusone", 0, 0) != 0 ? 1 : 0;
  const auto scale = static_cast<double>(choice("fpn_scale", 224, 158));
  const std::vector<int64_t> image = c.ints_attribute("image_size").value_or(std::vector<int64_t>{1024, 1024});
  constexpr size_t levels = 4;
  if (image.size() != 2 || image[0] < 1 || image[1] < 1) c.invalid("image_size is not a height and a width");
  if (how.pooled < 1 || (how.transform < 0 && how.pooled < 2)) c.invalid(fmt::format("pooled_size is {}", how.pooled));
  if (how.transform < -1 || how.transform > 2)
    c.invalid(fmt::format("roi_coords_transform is {}, not from -1 to 2", how.transform));
  // Samples would stand where a region's size says, or beyond the image.
  if (how.transform == 0 && how.samples < 1) c.unsupported("roi_coords_transform 0 with a sampling_ratio of 0");
  if (how.transform < 0 && how.samples != 1)
    c.unsupported(fmt::format("roi_coords_transform -1 with a sampling_ratio of {}, not 1", how.samples));
  const ValueId given = c.cast(c.input(0), DType::f32);
  if (c.rank(given) != 3) c.invalid(fmt::format("regions of {} axes: 3 are expected", c.rank(given)));
  const Dim batch = c.dim(given, 0), each = c.dim(given, 1), count = batch * each;
  const ValueId regions = c.reshape(given, {count, Dim(4)});
  const auto number = [&](double value) { return c.scalar(DType::f32, value); };
  const auto height = static_cast<double>(image[0]), width = static_cast<double>(image[1]);
  const auto part = [&](int64_t column, ScalarFunction of_two, double size) {
    const ValueId two[] = {slice_axis(c, regions, 1, column, 1), slice_axis(c, regions, 1, column + 2, 1)};
    ValueId value = c.add(of_two, {two[0], two[1]});
    if (are_pixels) value = c.add(F::div, {value, number(size)});
    return c.add(F::max, {c.add(F::min, {value, number(1)}), number(0)});
  };
  const int64_t x = swaps ? 1 : 0, y = swaps ? 0 : 1;
  const ValueId left = part(x, F::min, width), right = part(x, F::max, width);
  const ValueId top = part(y, F::min, height), bottom = part(y, F::max, height);
  const ValueId down = c.add(F::add, {c.add(F::sub, {bottom, top}), number(more / height)});
  const ValueId across = c.add(F::add, {c.add(F::sub, {right, left}), number(more / width)});
  const ValueId area = c.reshape(c.add(F::mul, {down, across}), {count, Dim(1), Dim(1), Dim(1)});
  const ValueId column = c.reshape(iota(c, batch), {batch, Dim(1)});
  const ValueId images = c.reshape(c.add(ops::Expand{{batch, each}}, {column}), {count});
  ops::RoiAlign op;
  op.height = op.width = how.pooled;
  op.sampling_ratio = how.samples;
  ValueId chosen = no_value;
  double least = scale * scale / 4 / (height * width);  // of the second scale
  for (size_t level = 0; level < levels; ++level) {
    const ValueId feature = c.widened(c.input(1 + level));
    if (c.rank(feature) != 4)
      c.invalid(fmt::format("input {} has {} axes: 4 are expected", 1 + level, c.rank(feature)));
    const auto [x1, x2] = in_pixels(c, left, right, c.dim(feature, 3), how);
    const auto [y1, y2] = in_pixels(c, top, bottom, c.dim(feature, 2), how);
    const ValueId pooled = c.add(op, {feature, c.add(ops::Concat{1}, {x1, y1, x2, y2}), images});
    if (level == 0) {
      chosen = pooled;
      continue;
    }
    chosen = c.add(F::select, {c.add(F::less, {number(least), area}), pooled, chosen});
    least *= 4;
  }
  const DType dtype = c.dtype(c.input(1));
  const Dim channels = c.dim(chosen, 1);
  const ValueId all = c.reshape(chosen, {batch, each, channels, Dim(how.pooled), Dim(how.pooled)});
  return {c.dtype(all) == dtype ? all : c.result_at(0, ops::Cast{dtype}, {all})};
}

// (value [n, s, heads, d], sizes of the levels, where these begin, places [n, q, heads, levels, points, 2] in [0, 1],
// weights [n, q, heads, levels, points]): each level is an image that is sampled, and the samples are weighed.
Values deformable_attention(ConvertContext& c) {
  const DType given = c.dtype(c.input(0));
  const ValueId value = c.widened(c.input(0)), places = c.widened(c.input(3)), weights = c.widened(c.input(4));
  if (c.rank(value) != 4 || c.rank(places) != 6 || c.rank(weights) != 5)
    c.invalid(fmt::format("value, places and weights have {}, {} and {} axes; 4, 6 and 5 are expected", c.rank(value),
                          c.rank(places), c.rank(weights)));
  const std::vector<int64_t> sizes = c.ints(c.input(1), "the sizes of the levels");
  const std::vector<int64_t> begins = c.ints(c.input(2), "where the levels begin");
  const Dim n = c.dim(value, 0), heads = c.dim(value, 2), width = c.dim(value, 3);
  const Dim queries = c.dim(places, 1), points = c.dim(places, 4);
  if (sizes.size() != 2 * begins.size() || begins.empty() ||
      !(c.dim(places, 3) == Dim(static_cast<int64_t>(begins.size()))))
    c.invalid(fmt::format("{} sizes and {} levels do not fit each other", sizes.size(), begins.size()));
  ValueId sum = no_value;
  for (size_t l = 0; l < begins.size(); ++l) {
    const auto level = static_cast<int64_t>(l);
    const int64_t height = sizes[2 * l], columns = sizes[2 * l + 1];
    const ValueId plane = slice_axis(c, value, 1, begins[l], height * columns);
    const ValueId image =
        c.reshape(c.add(ops::Transpose{{0, 2, 3, 1}}, {plane}), {n * heads, width, Dim(height), Dim(columns)});
    const ValueId at = c.reshape(slice_axis(c, places, 3, level, 1), {n, queries, heads, points, Dim(2)});
    const ValueId grid = c.reshape(c.add(ops::Transpose{{0, 2, 1, 3, 4}}, {at}), {n * heads, queries, points, Dim(2)});
    const DType dtype = c.dtype(grid);
    const ValueId twice = c.add(F::mul, {grid, c.scalar(dtype, 2)});
    const ValueId sampled = c.add(ops::GridSample{}, {image, c.add(F::sub, {twice, c.scalar(dtype, 1)})});
    const ValueId weight = c.reshape(slice_axis(c, weights, 3, level, 1), {n, queries, heads, points});
    const ValueId of_head =
        c.reshape(c.add(ops::Transpose{{0, 2, 1, 3}}, {weight}), {n * heads, Dim(1), queries, points});
    const ValueId weighed = c.add(F::mul, {sampled, of_head});
    const ValueId part = c.add(ops::Reduce{ops::ReduceKind::sum, {3}, false}, {weighed});
    sum = l == 0 ? part : c.add(F::add, {sum, part});
  }
  ValueId all = c.add(ops::Transpose{{0, 3, 1, 2}}, {c.reshape(sum, {n, heads, width, queries})});
  if (c.declared_rank(0) == 3) all = c.reshape(all, {n, queries, heads * width});
  return {c.dtype(all) == given ? all : c.result_at(0, ops::Cast{given}, {all})};
}

Values instance_normalization_trt(ConvertContext& c) {
  const Values normalized = find_converter("", "InstanceNormalization", newest_opset)->convert(c);
  if (c.int_attribute("relu", 0) == 0) return normalized;
  const ValueId y = normalized[0];
  const ValueId below = c.add(F::mul, {y, c.scalar(c.dtype(y), c.float_attribute("alpha", 0))});
  return {c.add(F::select, {c.add(F::less, {y, c.scalar(c.dtype(y), 0)}), below, y})};
}

constexpr Converter tensorrt_table[] = {
    {"BatchedNMSDynamic_TRT", batched_nms},
    {"BatchedNMS_TRT", batched_nms},
    {"EfficientNMS_ONNX_TRT", efficient_nms_onnx},
    {"EfficientNMS_TRT", efficient_nms},
    {"InstanceNormalization_TRT", instance_normalization_trt},
    {"MultiscaleDeformableAttnPlugin_TRT", deformable_attention},
    {"PyramidROIAlign_TRT", pyramid_roi_align},
    {"ROIAlign_TRT", roi_align_trt},
};

}  // namespace

std::span<const Converter> tensorrt_converters() {
  return tensorrt_table;
}

}  // namespace camshaft::onnx
