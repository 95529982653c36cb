#include "onnx/suppression.h"

#include <fmt/format.h>

#include <limits>

#include "ir/ops/generate.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/select.h"
#include "onnx/attention.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

constexpr double score_of_none = -std::numeric_limits<double>::infinity();  // the score of a box that is not there

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

}  // namespace

// NonMaxSuppression finds them; the scores of those that it chose go back to where they came from, and the best of each
// image are taken.
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
  const Dim numbers = c.dim(boxes, c.rank(boxes) - 1);
  const Shape of_classes{batch, classes, count, numbers}, flat{batch, classes * count, numbers};
  ValueId each = is_shared ? c.reshape(boxes, {batch, count, numbers}) : c.add(ops::Transpose{{0, 2, 1, 3}}, {boxes});
  const ValueId taken_from = is_shared ? each : c.reshape(each, flat);
  if (how.is_agnostic) {
    if (is_shared) each = c.add(ops::Expand{of_classes}, {c.reshape(each, {batch, Dim(1), count, numbers})});
    each = c.reshape(each, flat);
    scores = c.reshape(scores, {batch, Dim(1), classes * count});
  } else if (!is_shared) {
    each = c.reshape(each, {batch * classes, count, numbers});
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
  const ValueId of_class = c.add(F::div, {place, dim_scalar(c, count)});
  const ValueId within = c.add(F::mod, {place, dim_scalar(c, count)});
  const ValueId box = is_shared ? within : place;
  const ValueId found = c.add(ops::GatherND{1}, {taken_from, c.reshape(box, {batch, Dim(how.most), Dim(1)})});
  const ValueId is_box = c.reshape(is_there, {batch, Dim(how.most), Dim(1)});
  const ValueId total = c.add(ops::Reduce{ops::ReduceKind::sum, {1}, true}, {c.cast(is_there, DType::i32)});
  return {total,
          c.add(F::select, {is_box, found, c.scalar(DType::f32, 0)}),
          c.add(F::select, {is_there, best[0], c.scalar(DType::f32, 0)}),
          c.add(F::select, {is_there, c.cast(of_class, how.class_dtype), c.scalar(how.class_dtype, how.no_class)}),
          within,
          is_there};
}

ValueId corners_of_centres(ConvertContext& c, ValueId boxes) {
  const int64_t last = c.rank(boxes) - 1;
  const ValueId centre = slice_axis(c, boxes, last, 0, 2), size = slice_axis(c, boxes, last, 2, 2);
  const ValueId half = c.add(F::mul, {size, c.scalar(DType::f32, 0.5)});
  return c.add(ops::Concat{last}, {c.add(F::sub, {centre, half}), c.add(F::add, {centre, half})});
}

}  // namespace camshaft::onnx
