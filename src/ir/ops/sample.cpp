// Regions of interest and deformable convolution.
#include "ir/ops/sample.h"

#include "ir/ops/shape_rules.h"
#include "ir/ops/spatial.h"

namespace camshaft::ops {

namespace {

void check_regions(const InferContext& context, int64_t columns, int64_t height, int64_t width) {
  if (context.rank(0) != 4) fail_rule("the input must be [n, c, h, w], not of {} axes", context.rank(0));
  if (context.rank(1) != 2 || provably_different(context.shape(1)[1], columns))
    fail_rule("the regions must be [count, {}], not {}", columns, to_string(context.type(1)));
  if (!is_floating(context.dtype(0)) || context.dtype(1) != context.dtype(0))
    fail_rule("input and regions must have one floating-point type, not {} and {}", to_string(context.dtype(0)),
              to_string(context.dtype(1)));
  if (height < 1 || width < 1) fail_rule("an output of {} by {}", height, width);
}

}  // namespace

std::vector<Inferred> RoiAlign::infer(const InferContext& context) const {
  check_regions(context, are_turned ? 5 : 4, height, width);
  check_index_dtype(context.dtype(2), "the batch indices");
  if (context.rank(2) != 1) fail_rule("the batch indices must have one axis, not {}", context.rank(2));
  if (sampling_ratio < 0 || sampling_ratio > 1024) fail_rule("a sampling ratio of {}", sampling_ratio);
  const Dim count = same_size(context.shape(1)[0], context.shape(2)[0], "regions and batch indices", 0);
  return {Inferred{{context.dtype(0), {count, context.shape(0)[1], height, width}}}};
}

std::vector<Inferred> MaxRoiPool::infer(const InferContext& context) const {
  check_regions(context, 5, height, width);
  return {Inferred{{context.dtype(0), {context.shape(1)[0], context.shape(0)[1], height, width}}}};
}

std::vector<Inferred> DeformConv::infer(const InferContext& context) const {
  if (context.rank(0) != 4 || context.rank(1) != 4 || context.rank(2) != 4)
    fail_rule("input, weights and offsets must have 4 axes, not {}, {} and {}", context.rank(0), context.rank(1),
              context.rank(2));
  check_window_fields(name, 2, strides, pads, dilations);
  constexpr int64_t most_groups = int64_t{1} << 31;
  if (groups < 1 || offset_groups < 1 || groups > most_groups || offset_groups > most_groups)
    fail_rule("{} groups and {} offset groups", groups, offset_groups);
  const Shape &x = context.shape(0), &w = context.shape(1), &offset = context.shape(2);
  for (size_t i = 1; i < context.input_count(); ++i)
    if (context.has(i) && context.dtype(i) != context.dtype(0))
      fail_rule("input {} is {}, the input {}", i, to_string(context.dtype(i)), to_string(context.dtype(0)));
  if (!is_floating(context.dtype(0))) fail_rule("the input must be floating-point");
  same_size(x[1], w[1] * Dim(groups), "channels of input and weights", 1);
  const Dim taps = w[2] * w[3] * Dim(offset_groups);
  same_size(taps * Dim(2), offset[1], "taps of weights and offsets", 1);
  Shape shape{x[0], w[0], 0, 0};
  for (size_t i = 0; i < 2; ++i) {
    const Dim extent = window_extent(w[2 + i], dilations[i]);
    shape[2 + i] = floor_div(x[2 + i] + pads[i] + pads[2 + i] - extent, strides[i]) + Dim(1);
    check_output_size(name, shape[2 + i], x[2 + i], extent);
    same_size(shape[2 + i], offset[2 + i], "output and offsets", 2 + i);
  }
  if (context.has(3)) {
    if (context.rank(3) != 1) fail_rule("the bias must have one axis");
    same_size(w[0], context.shape(3)[0], "weights and bias", 0);
  }
  if (context.has(4)) {
    if (context.rank(4) != 4) fail_rule("the mask must have 4 axes");
    same_size(taps, context.shape(4)[1], "taps of weights and mask", 1);
  }
  return {Inferred{{context.dtype(0), std::move(shape)}}};
}

}  // namespace camshaft::ops
