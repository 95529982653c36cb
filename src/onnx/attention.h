// Scaled dot-product attention as a sub-graph of products, pointwise operators and a softmax: the one place that all
// attention operators of ONNX and ONNX Runtime are lowered in.
#pragma once

#include <limits>
#include <optional>

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// softmax(mask(softcap(scale · query · keyᵀ) + biases)) · value
struct Attention {
  ValueId query = no_value;     ///< [batch, heads, queries, size]
  ValueId key = no_value;       ///< [batch, key heads, keys, size]; the key heads divide the heads
  ValueId value = no_value;     ///< [batch, key heads, keys, value size]
  std::optional<double> scale;  ///< else 1/√size
  double softcap = 0;           ///< scores become softcap·tanh(score/softcap); 0: they stay
  Values biases;                ///< added to the scores; each broadcasts to [batch, heads, queries, keys]
  Values masks;                 ///< bool: false takes a key out; broadcast likewise
  double masked = -std::numeric_limits<double>::infinity();  ///< the score of what is masked
  std::optional<DType> softmax_dtype;                        ///< else the query's
  /// [heads] or one element: the score of one more key, which has no value; no_value: there is none.
  ValueId sink = no_value;
};

/// All [batch, heads, queries, keys], but y: [batch, heads, queries, value size].
struct AttentionResult {
  ValueId product, capped, biased, probabilities, y;
};

/// Throws invalid_model when the heads do not fit together.
AttentionResult attention(ConvertContext& c, const Attention& a);
/// probabilities · value in `dtype`, the heads of the value repeated.
ValueId weighted_values(ConvertContext& c, ValueId probabilities, ValueId value, DType dtype);
/// scale · query · keyᵀ, the heads of the key repeated; scale is 1/√size when it is not given.
ValueId attention_scores(ConvertContext& c, ValueId query, ValueId key, std::optional<double> scale);

/// [batch, length, heads·size] -> [batch, heads, length, size]; invalid_model when the heads do not divide.
ValueId split_heads(ConvertContext& c, ValueId x, int64_t heads);
/// The inverse.
ValueId merge_heads(ConvertContext& c, ValueId x);
/// bool [.., queries, keys]: which keys a query sees; `keys` are their positions 0, 1, … (i64). `first` (i64) is the
/// position of the first query: a scalar, or [batch, 1, 1, 1]; no_value: 0. A query at position p sees the keys at p -
/// window + 1 … p; all up to p when window is 0.
ValueId causal_mask(ConvertContext& c, const Dim& queries, ValueId keys, ValueId first, int64_t window = 0);
/// bool [batch, 1, 1, keys]: the first `lengths[b]` of the keys, whose positions are `keys`; lengths is an integer
/// tensor of `batch` elements.
ValueId length_mask(ConvertContext& c, ValueId lengths, ValueId keys);
/// A dim as an i64 scalar.
ValueId dim_scalar(ConvertContext& c, const Dim& dim);

/// Rotary position embedding of x[.., size]: pairs of the first `rotated` elements (halves, or neighbours when
/// `interleaved`) are turned by the angles whose cosines and sines broadcast to [.., rotated/2].
ValueId rotate(ConvertContext& c, ValueId x, ValueId cosine, ValueId sine, int64_t rotated, bool interleaved);
/// part [start, start + count) of an axis
ValueId slice_axis(ConvertContext& c, ValueId x, int64_t axis, const Dim& start, const Dim& count, int64_t step = 1);

}  // namespace camshaft::onnx
