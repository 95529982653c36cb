// TensorRT's open plugins that models have in place of blocks of theirs, by their documentation: norms, attention and
// gates of diffusion models (the demo of TensorRT 8.5 writes them into ONNX's own domain), resizing, activations.
#include <fmt/format.h>

#include <cmath>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/resize.h"
#include "onnx/activations.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

void check_rank(ConvertContext& c, size_t i, int64_t rank) {
  if (c.rank(c.input(i)) != rank)
    c.invalid(fmt::format("input {} has {} axes, {} are expected", i, c.rank(c.input(i)), rank));
}

/// Scale and bias may be wider than what they scale, as TensorRT has them.
ValueId normalized_in_groups(ConvertContext& c, int64_t groups, double epsilon) {
  const ValueId x = c.input(0);
  if (c.rank(x) < 3) c.invalid(fmt::format("the input has {} axes, at least 3 are needed", c.rank(x)));
  if (groups < 1) c.invalid(fmt::format("{} groups: at least 1 is needed", groups));
  return c.add(ops::GroupNorm{groups, epsilon}, {x, c.cast(c.input(1), c.dtype(x)), c.cast(c.input(2), c.dtype(x))});
}

Values group_norm_of_diffusion(ConvertContext& c) {
  constexpr int64_t groups = 32;
  const ValueId y = normalized_in_groups(c, groups, c.float_attribute("epsilon", 1e-5F));
  return {c.int_attribute("bSwish", 0) != 0 ? swish(c, y, 1) : y};
}

Values group_normalization_plugin(ConvertContext& c) {
  return {normalized_in_groups(c, c.int_attribute("num_groups"), c.float_attribute("eps", 1e-5F))};
}

Values layer_norm(ConvertContext& c) {
  return find_converter("", "LayerNormalization", newest_opset)->convert(c);
}

// One half of the last axis, times the Gelu of the other.
Values split_gelu(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t last = c.rank(x) - 1;
  if (last < 0) c.invalid("the input is a scalar");
  const Dim half = floor_div(c.dim(x, last), 2);
  return c.result(F::mul, {slice_axis(c, x, last, 0, half), gelu(c, slice_axis(c, x, last, half, half))});
}

// (x [n, h·w, c], bias [c], residual, a tensor that is [.., h, w]): their sum as an image.
Values sequence_to_image(ConvertContext& c) {
  check_rank(c, 0, 3);
  check_rank(c, 3, 4);
  const ValueId x = c.input(0);
  const DType dtype = c.dtype(x);
  const ValueId biased = c.add(F::add, {x, c.cast(c.input(1), dtype)});
  const ValueId sum = c.add(F::add, {biased, c.cast(c.input(2), dtype)});
  const ValueId image = c.reshape(sum, {c.dim(x, 0), c.dim(c.input(3), 2), c.dim(c.input(3), 3), c.dim(x, 2)});
  return c.result(ops::Transpose{{0, 3, 1, 2}}, {image});
}

/// Part `index` of [n, length, heads, parts, size], as [n, heads, length, size].
ValueId part_of_packed(ConvertContext& c, ValueId packed, int64_t index) {
  const ValueId part = slice_axis(c, packed, 3, index, 1);
  const ValueId flat = c.reshape(part, {c.dim(packed, 0), c.dim(packed, 1), c.dim(packed, 2), c.dim(packed, 4)});
  return c.add(ops::Transpose{{0, 2, 1, 3}}, {flat});
}

void check_parts(ConvertContext& c, ValueId packed, int64_t parts) {
  if (!(c.dim(packed, 3) == Dim(parts)))
    c.invalid(fmt::format("axis 3 has {} elements, {} are expected", c.dim(packed, 3).str(), parts));
}

Values attended(ConvertContext& c, ValueId query, ValueId key, ValueId value) {
  Attention a;
  a.query = query;
  a.key = key;
  a.value = value;
  return c.result(ops::Transpose{{0, 2, 1, 3}}, {attention(c, a).y});
}

// qkv [n, length, heads, 3, size] -> [n, length, heads, size]
Values self_attention(ConvertContext& c) {
  check_rank(c, 0, 5);
  const ValueId qkv = c.input(0);
  check_parts(c, qkv, 3);
  return attended(c, part_of_packed(c, qkv, 0), part_of_packed(c, qkv, 1), part_of_packed(c, qkv, 2));
}

// (q [n, queries, heads, size] or [n, queries, heads·size], kv [n, keys, heads, 2, size]) -> [n, queries, heads, size]
Values cross_attention(ConvertContext& c) {
  check_rank(c, 1, 5);
  const ValueId kv = c.input(1);
  check_parts(c, kv, 2);
  ValueId query = c.input(0);
  if (c.rank(query) == 3) query = c.reshape(query, {c.dim(query, 0), c.dim(query, 1), c.dim(kv, 2), c.dim(kv, 4)});
  if (c.rank(query) != 4) c.invalid(fmt::format("input 0 has {} axes, 3 or 4 are expected", c.rank(query)));
  return attended(c, c.add(ops::Transpose{{0, 2, 1, 3}}, {query}), part_of_packed(c, kv, 0), part_of_packed(c, kv, 1));
}

Values resize_nearest_trt(ConvertContext& c) {
  check_rank(c, 0, 4);
  const double scale = c.float_attribute("scale");
  const auto whole = static_cast<int64_t>(scale);
  if (!(scale >= 1) || static_cast<double>(whole) != scale)
    c.unsupported(fmt::format("a scale of {}; whole numbers are", scale));
  ops::Resize op;
  op.mode = ops::ResizeMode::nearest;
  op.coordinate = ops::ResizeCoordinate::asymmetric;
  op.nearest = ops::ResizeNearest::floor;
  op.axes = {2, 3};
  const ValueId x = c.input(0);
  op.sizes = {c.dim(x, 2) * Dim(whole), c.dim(x, 3) * Dim(whole)};
  op.scales = {scale, scale};
  return c.result(op, {x});
}

Values leaky_relu_trt(ConvertContext& c) {
  const ValueId x = c.input(0);
  const ValueId below = c.add(F::mul, {x, c.scalar(c.dtype(x), c.float_attribute("negSlope"))});
  return c.result(F::select, {c.add(F::less, {x, c.scalar(c.dtype(x), 0)}), below, x});
}

Values clip_trt(ConvertContext& c) {
  const ValueId x = c.input(0);
  const ValueId above = c.add(F::max, {x, c.scalar(c.dtype(x), c.float_attribute("clipMin"))});
  return c.result(F::min, {above, c.scalar(c.dtype(x), c.float_attribute("clipMax"))});
}

// (content to content [b, s, s], content to position [b, s, 2 span], position to content [b, s, 2 span]): the scores of
// DeBERTa's attention (https://arxiv.org/abs/2006.03654). Distances of more than span / 2 share buckets, by logarithms.
Values disentangled_attention(ConvertContext& c) {
  for (size_t i = 0; i < 3; ++i) check_rank(c, i, 3);
  const ValueId content = c.input(0), to_position = c.input(1), from_position = c.input(2);
  const int64_t span = c.int_attribute("span"), middle = span / 2;
  const int64_t most = c.static_size(c.dim(to_position, 2), "the number of relative positions");
  if (middle < 1 || most < 2 * span || most - 1 <= middle)
    c.invalid(fmt::format("a span of {} with {} relative positions", span, most));
  const Dim batch = c.dim(content, 0), length = c.dim(content, 1);
  const auto number = [&](double value) { return c.scalar(DType::f32, value); };
  const ValueId places = c.cast(iota(c, length), DType::f32);
  const ValueId distance = c.add(F::sub, {c.reshape(places, {length, Dim(1)}), c.reshape(places, {Dim(1), length})});
  const ValueId magnitude = c.add(F::abs, {distance});
  // A little less than it is, so that the end of a bucket is rounded into it.
  const double steps = static_cast<double>(middle - 1) /
                       (std::log(static_cast<double>(most - 1)) - std::log(static_cast<double>(middle))) * (1 - 1e-7);
  const ValueId beyond = c.add(
      F::sub, {c.add(F::log, {c.add(F::max, {magnitude, number(1)})}), number(std::log(static_cast<double>(middle)))});
  const ValueId bucket =
      c.add(F::add, {c.add(F::ceil, {c.add(F::mul, {beyond, number(steps)})}), number(static_cast<double>(middle))});
  const ValueId is_negative = c.add(F::less, {distance, number(0)});
  const ValueId with_sign = c.add(F::select, {is_negative, c.add(F::neg, {bucket}), bucket});
  const ValueId is_far = c.add(F::less, {number(static_cast<double>(middle)), magnitude});
  const ValueId place =
      c.add(F::add, {c.add(F::select, {is_far, with_sign, distance}), number(static_cast<double>(span))});
  const ValueId index =
      c.cast(c.add(F::min, {c.add(F::max, {place, number(0)}), number(static_cast<double>(2 * span - 1))}), DType::i64);
  const auto gathered = [&](ValueId from, ValueId at) {
    return c.add(ops::GatherElements{2}, {from, c.add(ops::Expand{{batch, length, length}}, {at})});
  };
  const ValueId of_keys = gathered(from_position, c.add(ops::Transpose{{1, 0}}, {index}));
  const ValueId sum = c.add(
      F::add, {c.add(F::add, {content, gathered(to_position, index)}), c.add(ops::Transpose{{0, 2, 1}}, {of_keys})});
  return c.result(F::mul, {sum, c.scalar(c.dtype(content), c.float_attribute("factor"))});
}

constexpr Converter tensorrt_block_table[] = {
    {"Clip_TRT", clip_trt},
    {"DisentangledAttention_TRT", disentangled_attention},
    {"GroupNorm", group_norm_of_diffusion},
    {"GroupNormalizationPlugin", group_normalization_plugin},
    {"LReLU_TRT", leaky_relu_trt},
    {"LayerNorm", layer_norm},
    {"ResizeNearest_TRT", resize_nearest_trt},
    {"SeqLen2Spatial", sequence_to_image},
    {"SplitGeLU", split_gelu},
    {"fMHA_V2", self_attention},
    {"fMHCA", cross_attention},
};

}  // namespace

std::span<const Converter> tensorrt_block_converters() {
  return tensorrt_block_table;
}

}  // namespace camshaft::onnx
