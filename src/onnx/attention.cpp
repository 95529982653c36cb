#include "onnx/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "ir/ops/contract.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/rotary_embedding.h"
#include "onnx/generators.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// How many heads of the query share one of the key.
Dim group_size(ConvertContext& c, ValueId query, ValueId key) {
  for (const ValueId id : {query, key})
    if (c.rank(id) != 4) c.invalid(fmt::format("attention takes 4 axes, got {}", c.rank(id)));
  const Dim &heads = c.dim(query, 1), &key_heads = c.dim(key, 1);
  if (heads == key_heads) return 1;
  const auto h = heads.as_constant(), k = key_heads.as_constant();
  if (k && (*k < 1 || (h && *h % *k != 0)))
    c.invalid(fmt::format("{} heads of the query cannot share {} of the key", heads.str(), *k));
  return floor_div(heads, key_heads);
}

// x[b, heads, l, size] times the matrices of `by`. Heads that share one become rows of one matrix, so that nothing is
// repeated: [b, heads/group, group·l, size].
ValueId multiply_heads(ConvertContext& c, ValueId x, ValueId by, bool transpose) {
  const Dim group = group_size(c, x, by);
  const ops::MatMul op{false, transpose};
  if (group == Dim(1)) return c.add(op, {x, by});
  const Shape s = c.shape(x);
  const ValueId grouped = c.reshape(x, {s[0], c.dim(by, 1), group * s[2], s[3]});
  const ValueId y = c.add(op, {grouped, by});
  return c.reshape(y, {s[0], s[1], s[2], c.dim(y, 3)});
}

// scale·x, or x/√size
ValueId scaled(ConvertContext& c, ValueId x, std::optional<double> scale) {
  const DType dtype = c.dtype(x);
  const Dim size = c.shape(x).back();
  if (!scale && !size.is_constant()) {
    const ValueId root = c.add(F::sqrt, {c.cast(dim_scalar(c, size), dtype == DType::f64 ? dtype : DType::f32)});
    return c.add(F::div, {x, c.cast(root, dtype)});
  }
  if (!scale) scale = size == Dim(0) ? 1 : 1 / std::sqrt(static_cast<double>(size.value()));
  return *scale == 1 ? x : c.add(F::mul, {x, c.scalar(dtype, *scale)});
}

// The softmax over the keys and one key more, which is then left out.
ValueId softmax_with_sink(ConvertContext& c, ValueId scores, ValueId sink) {
  const Shape s = c.shape(scores);
  const ValueId score = c.reshape(c.cast(sink, c.dtype(scores)), {1, product(c.shape(sink)), 1, 1});
  const ValueId column = c.add(ops::Expand{{s[0], s[1], s[2], 1}}, {score});
  const ValueId all = c.add(ops::Softmax{3}, {c.add(ops::Concat{3}, {scores, column})});
  return slice_axis(c, all, 3, 0, s[3]);
}

}  // namespace

ValueId attention_scores(ConvertContext& c, ValueId query, ValueId key, std::optional<double> scale) {
  group_size(c, query, key);  // checks their axes
  // The query is scaled and not the scores: fewer elements, and narrow floats do not overflow.
  return multiply_heads(c, scaled(c, query, scale), key, true);
}

ValueId weighted_values(ConvertContext& c, ValueId probabilities, ValueId value, DType dtype) {
  const ValueId weights = c.cast(probabilities, dtype);
  return multiply_heads(c, weights, c.cast(value, dtype), false);
}

AttentionResult attention(ConvertContext& c, const Attention& a) {
  AttentionResult r;
  const DType dtype = c.dtype(a.query);
  r.product = attention_scores(c, a.query, c.cast(a.key, dtype), a.scale);
  r.capped = r.product;
  if (a.softcap != 0) {
    const ValueId squashed = c.add(F::tanh, {c.add(F::div, {r.product, c.scalar(dtype, a.softcap)})});
    r.capped = c.add(F::mul, {squashed, c.scalar(dtype, a.softcap)});
  }
  r.biased = r.capped;
  const auto check = [&] {  // a bias or mask must not make the scores larger
    if (c.rank(r.biased) != 4) c.invalid("a mask or bias has more axes than the scores");
  };
  for (const ValueId bias : a.biases) {
    r.biased = c.add(F::add, {r.biased, c.cast(bias, dtype)});
    check();
  }
  for (const ValueId mask : a.masks) {
    r.biased = c.add(F::select, {mask, r.biased, c.scalar(dtype, a.masked)});
    check();
  }
  const ValueId scores = c.cast(r.biased, a.softmax_dtype.value_or(dtype));
  const ValueId probabilities =
      a.sink == no_value ? c.add(ops::Softmax{3}, {scores}) : softmax_with_sink(c, scores, a.sink);
  r.probabilities = c.cast(probabilities, dtype);
  r.y = weighted_values(c, r.probabilities, a.value, dtype);
  return r;
}

ValueId split_heads(ConvertContext& c, ValueId x, int64_t heads) {
  if (c.rank(x) != 3) c.invalid(fmt::format("an input has {} axes instead of 3", c.rank(x)));
  if (heads < 1) c.invalid(fmt::format("the number of heads is {}, it must be positive", heads));
  const Shape s = c.shape(x);
  if (s[2].is_constant() && s[2].value() % heads != 0)
    c.invalid(fmt::format("{} heads do not divide {} elements", heads, s[2].str()));
  const ValueId apart = c.reshape(x, {s[0], s[1], heads, floor_div(s[2], heads)});
  return c.add(ops::Transpose{{0, 2, 1, 3}}, {apart});
}

ValueId merge_heads(ConvertContext& c, ValueId x) {
  const Shape s = c.shape(x);
  const ValueId y = c.add(ops::Transpose{{0, 2, 1, 3}}, {x});
  return c.reshape(y, {s[0], s[2], s[1] * s[3]});
}

ValueId dim_scalar(ConvertContext& c, const Dim& dim) {
  if (dim.is_constant()) return c.add_constant(Tensor::of<int64_t>(DType::i64, {}, {dim.value()}));
  return c.add(ops::DimsTensor{{dim}, DType::i64, true}, {});
}

ValueId causal_mask(ConvertContext& c, const Dim& queries, ValueId keys, ValueId first, int64_t window) {
  ValueId row = c.reshape(iota(c, queries), {queries, 1});
  if (first != no_value) row = c.add(F::add, {row, first});
  ValueId seen = c.add(F::less_or_equal, {keys, row});
  if (window <= 0) return seen;
  const ValueId width = c.add_constant(Tensor::of<int64_t>(DType::i64, {}, {window}));
  const ValueId near = c.add(F::less, {c.add(F::sub, {row, width}), keys});
  return c.add(F::logical_and, {seen, near});
}

ValueId length_mask(ConvertContext& c, ValueId lengths, ValueId keys) {
  const ValueId wide = c.cast(lengths, DType::i64);
  return c.add(F::less, {keys, c.reshape(wide, {product(c.shape(lengths)), 1, 1, 1})});
}

ValueId slice_axis(ConvertContext& c, ValueId x, int64_t axis, const Dim& start, const Dim& count, int64_t step) {
  if (start == Dim(0) && count == c.dim(x, axis) && step == 1) return x;
  return c.add(ops::Slice{{axis}, {start}, {count}, {step}}, {x});
}

ValueId rotate(ConvertContext& c, ValueId x, ValueId cosine, ValueId sine, int64_t rotated, bool interleaved) {
  const int64_t last = c.rank(x) - 1, half = rotated / 2;
  const Dim size = c.dim(x, last);
  if (rotated < 0 || rotated % 2 != 0 || (size.is_constant() && rotated > size.value()))
    c.invalid(fmt::format("{} of {} elements cannot be rotated in pairs", rotated, size.str()));
  for (const ValueId id : {cosine, sine})
    if (const Dim& have = c.shape(id).back(); have.is_constant() && have.value() != half)
      c.invalid(fmt::format("the cosines and sines are {} wide, {} are needed", have.str(), half));
  return c.add(ops::dense_rotary_embedding(c.shape(x), c.shape(cosine), c.shape(sine), rotated, interleaved),
               {x, cosine, sine});
}

}  // namespace camshaft::onnx
