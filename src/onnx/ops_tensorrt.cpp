// TensorRT's own plugins that models name, as operators of ours: by the documentation of its open plugins. Exporters
// write them into the domain "TRT", or into ONNX's own.
#include <fmt/format.h>

#include <limits>

#include "ir/ops/generate.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/sample.h"
#include "ir/ops/select.h"
#include "onnx/attention.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

constexpr double score_of_none = -std::numeric_limits<double>::infinity();  // the score of a box that is not there

/// What EfficientNMS and BatchedNMS have in common.
struct Suppression {
  double score_threshold = 0, iou_threshold = 0;
  int64_t most = 0;        ///< boxes that an image keeps
  int64_t candidates = 0;  ///< boxes of a class that are compared; 0: all
  int64_t background = -1;
  bool is_agnostic = false;    ///< boxes of one class suppress those of others
  bool counts_pixels = false;  ///< a box ends behind its last pixel
  double no_class = 0;         ///< of the places that are not filled
  DType class_dtype = DType::i32;
};

/// The value of one size.
ValueId size_of(ConvertContext& c, const Dim& d) {
  return c.add(ops::DimsTensor{{d}, DType::i64, true}, {});
}

ValueId filled(ConvertContext& c, DType dtype, double value, Shape shape) {
  return c.add(ops::Expand{std::move(shape)}, {c.scalar(dtype, value)});
}

/// Scores [..., n] without those that are not among the `count` best of their row.
ValueId only_best(ConvertContext& c, ValueId scores, int64_t count) {
  Shape more = c.shape(scores);
  more.back() = count;  // so that there are as many in any case
  const int64_t last = c.rank(scores) - 1;
  const ValueId row = c.add(ops::Concat{last}, {scores, filled(c, DType::f32, score_of_none, more)});
  const Values best = c.add_all(ops::TopK{last, true}, {row, c.add_constant(Tensor::from_ints({count}))}, 2);
  const ValueId least = slice_axis(c, best[0], last, count - 1, 1);
  return c.add(F::select, {c.add(F::less, {scores, least}), c.scalar(DType::f32, score_of_none), scores});
}

/// boxes f32[b, n, 4] or [b, n, classes, 4], corners; scores f32[b, n, classes] -> how many boxes each image has, the
/// boxes, their scores and classes, by falling score. NonMaxSuppression finds them; the scores of those that it chose
/// go back to where they came from, and the best of each image are taken.
Values suppressed(ConvertContext& c, ValueId boxes, ValueId scores, const Suppression& how) {
  if (c.rank(scores) != 3 || (c.rank(boxes) != 3 && c.rank(boxes) != 4))
    c.invalid(
        fmt::format("boxes of {} axes and scores of {}: 3 or 4, and 3, are expected", c.rank(boxes), c.rank(scores)));
  if (how.most < 1) c.invalid(fmt::format("{} boxes are to be kept", how.most));
  const Dim batch = c.dim(scores, 0), count = c.dim(scores, 1), classes = c.dim(scores, 2);
  const bool is_shared = c.rank(boxes) == 3 || c.dim(boxes, 2) == Dim(1);
  scores = c.add(ops::Transpose{{0, 2, 1}}, {scores});
  if (how.background >= 0) {
    const int64_t known = c.static_size(classes, "the number of classes, beside a background class");
    std::vector<float> mask(static_cast<size_t>(known), 0.0F);
    if (how.background < known) mask[static_cast<size_t>(how.background)] = static_cast<float>(score_of_none);
    const Tensor added = Tensor::of<float>(DType::f32, {1, known, 1}, mask);
    scores = c.add(F::add, {scores, c.add_constant(added)});
  }
  if (how.candidates > 0) scores = only_best(c, scores, how.candidates);
  // One row of boxes for each row of scores that suppress each other.
  const Shape of_classes{batch, classes, count, Dim(4)}, flat{batch, classes * count, Dim(4)};
  ValueId each = is_shared ? c.reshape(boxes, {batch, count, Dim(4)}) : c.add(ops::Transpose{{0, 2, 1, 3}}, {boxes});
  const ValueId taken_from = is_shared ? each : c.reshape(each, flat);
  if (how.is_agnostic) {
    if (is_shared) each = c.add(ops::Expand{of_classes}, {c.reshape(each, {batch, Dim(1), count, Dim(4)})});
    each = c.reshape(each, flat);
    scores = c.reshape(scores, {batch, Dim(1), classes * count});
  } else if (!is_shared) {
    each = c.reshape(each, {batch * classes, count, Dim(4)});
    scores = c.reshape(scores, {batch * classes, Dim(1), count});
  }
  if (how.counts_pixels) {
    const Tensor added = Tensor::of<float>(DType::f32, {1, 1, 4}, {0, 0, 1, 1});
    each = c.add(F::add, {each, c.add_constant(added)});
  }
  const auto number = [&](double value) {
    return c.add_constant(Tensor::of<float>(DType::f32, {1}, {static_cast<float>(value)}));
  };
  const ValueId chosen = c.add(ops::NonMaxSuppression{}, {each, scores, c.add_constant(Tensor::from_ints({how.most})),
                                                          number(how.iou_threshold), number(how.score_threshold)});
  const ValueId kept = c.add(ops::GatherND{}, {scores, chosen});
  const ValueId none = filled(c, DType::f32, score_of_none, c.shape(scores));
  const ValueId dense = c.reshape(c.add(ops::ScatterND{}, {none, chosen, kept}), {batch, classes * count});
  // As many as are asked for in any case.
  const ValueId row = c.add(ops::Concat{1}, {dense, filled(c, DType::f32, score_of_none, {batch, Dim(how.most)})});
  const Values best = c.add_all(ops::TopK{1, true}, {row, c.add_constant(Tensor::from_ints({how.most}))}, 2);
  const ValueId is_there = c.add(F::less, {c.scalar(DType::f32, score_of_none), best[0]});
  const ValueId place = c.add(F::select, {is_there, best[1], c.scalar(DType::i64, 0)});
  const ValueId of_class = c.add(F::div, {place, size_of(c, count)});
  const ValueId box = is_shared ? c.add(F::mod, {place, size_of(c, count)}) : place;
  const ValueId found = c.add(ops::GatherND{1}, {taken_from, c.reshape(box, {batch, Dim(how.most), Dim(1)})});
  const ValueId is_box = c.reshape(is_there, {batch, Dim(how.most), Dim(1)});
  const ValueId total = c.add(ops::Reduce{ops::ReduceKind::sum, {1}, true}, {c.cast(is_there, DType::i32)});
  return {total, c.add(F::select, {is_box, found, c.scalar(DType::f32, 0)}),
          c.add(F::select, {is_there, best[0], c.scalar(DType::f32, 0)}),
          c.add(F::select, {is_there, c.cast(of_class, how.class_dtype), c.scalar(how.class_dtype, how.no_class)})};
}

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
  const int64_t coding = c.int_attribute("box_coding", 0), last = c.rank(boxes) - 1;
  if (coding != 0 && coding != 1) c.invalid(fmt::format("box_coding is {}, not 0 or 1", coding));
  if (c.has(2)) boxes = decoded(c, boxes, c.cast(c.input(2), DType::f32), coding == 1);
  if (coding == 1) {
    const ValueId centre = slice_axis(c, boxes, last, 0, 2), size = slice_axis(c, boxes, last, 2, 2);
    const ValueId half = c.add(F::mul, {size, c.scalar(DType::f32, 0.5)});
    boxes = c.add(ops::Concat{last}, {c.add(F::sub, {centre, half}), c.add(F::add, {centre, half})});
  }
  return as_outputs(c, suppressed(c, boxes, scores, how), c.dtype(c.input(0)));
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
    {"EfficientNMS_TRT", efficient_nms},
    {"InstanceNormalization_TRT", instance_normalization_trt},
    {"MultiscaleDeformableAttnPlugin_TRT", deformable_attention},
    {"ROIAlign_TRT", roi_align_trt},
};

}  // namespace

std::span<const Converter> tensorrt_converters() {
  return tensorrt_table;
}

}  // namespace camshaft::onnx
