// Attention, rotary embeddings and what else the standard has for transformers and their linear relatives.
#include <fmt/format.h>

#include <cmath>

#include "ir/ops/contract.h"
#include "ir/ops/linear_attention.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/activations.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"
#include "onnx/onnx_dtype.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

std::optional<DType> softmax_precision(ConvertContext& c) {
  if (!c.has_attribute("softmax_precision")) return std::nullopt;
  const DType dtype = dtype_from_onnx(static_cast<int32_t>(c.int_attribute("softmax_precision")), "softmax_precision");
  if (!is_floating(dtype)) c.invalid(fmt::format("softmax_precision is {}, not a float", to_string(dtype)));
  return dtype;
}

// The mask's last axis may be shorter than the keys: those beyond are masked out. One element broadcasts only where the
// mask is a scalar.
ValueId pad_mask(ConvertContext& c, ValueId mask, const Dim& keys) {
  const int64_t rank = c.rank(mask);
  if (rank == 0) return mask;
  const Dim missing = max(keys - c.dim(mask, rank - 1), Dim(0));
  if (missing == Dim(0)) return mask;
  Shape pads(2 * static_cast<size_t>(rank), Dim(0));
  pads.back() = missing;
  const DType dtype = c.dtype(mask);
  if (dtype != DType::boolean && !is_floating(dtype))
    c.invalid(fmt::format("the mask is {}, neither bool nor floating-point", to_string(dtype)));
  // Pad moves numbers: bool as bytes.
  const double value = dtype == DType::boolean ? 0 : -std::numeric_limits<double>::infinity();
  return c.add(ops::Pad{ops::PadMode::constant, std::move(pads)}, {mask, c.scalar(dtype, value)});
}

Values attention(ConvertContext& c) {
  Attention a;
  a.query = c.input(0);
  a.key = c.input(1);
  a.value = c.input(2);
  const int64_t rank = c.rank(a.query);
  if ((rank != 3 && rank != 4) || c.rank(a.key) != rank || c.rank(a.value) != rank)
    c.invalid(fmt::format("query, key and value have {}, {} and {} axes; 3 or 4 each are needed", rank, c.rank(a.key),
                          c.rank(a.value)));
  if (rank == 3) {
    const int64_t heads = c.int_attribute("q_num_heads"), key_heads = c.int_attribute("kv_num_heads");
    a.query = split_heads(c, a.query, heads);
    a.key = split_heads(c, a.key, key_heads);
    a.value = split_heads(c, a.value, key_heads);
  }
  const bool has_past = c.has(4);
  if (has_past != c.has(5)) c.invalid("past_key and past_value must be given together");
  ValueId past_length = no_value;
  if (has_past) {
    for (const size_t i : {size_t{4}, size_t{5}})
      if (c.rank(c.input(i)) != 4) c.invalid(fmt::format("input {} has {} axes instead of 4", i, c.rank(c.input(i))));
    past_length = dim_scalar(c, c.dim(c.input(4), 2));
    a.key = c.add(ops::Concat{2}, {c.cast(c.input(4), c.dtype(a.key)), a.key});
    a.value = c.add(ops::Concat{2}, {c.cast(c.input(5), c.dtype(a.value)), a.value});
  }
  const Dim queries = c.dim(a.query, 2), keys = c.dim(a.key, 2);
  if (c.has_attribute("scale")) a.scale = c.float_attribute("scale");
  a.softcap = c.float_attribute("softcap", 0);
  if (a.softcap < 0) a.softcap = 0;
  a.softmax_dtype = softmax_precision(c);
  if (c.has(3)) {
    const ValueId given = c.input(3);
    const bool is_bool = c.dtype(given) == DType::boolean;
    const ValueId mask = pad_mask(c, is_bool ? given : c.cast(given, c.dtype(a.query)), keys);
    (is_bool ? a.masks : a.biases).push_back(mask);
  }
  if (c.int_attribute("is_causal", 0) != 0) a.masks.push_back(causal_mask(c, queries, iota(c, keys), past_length));
  if (c.has(6)) a.masks.push_back(length_mask(c, c.input(6), iota(c, keys)));

  const AttentionResult r = onnx::attention(c, a);
  Values outputs{rank == 3 ? merge_heads(c, r.y) : r.y, a.key, a.value, no_value};
  const int64_t mode = c.int_attribute("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) c.invalid(fmt::format("qk_matmul_output_mode is {}, not 0 to 3", mode));
  outputs[3] = mode == 0 ? r.product : mode == 1 ? r.capped : mode == 2 ? r.biased : r.probabilities;
  return outputs;
}

Values rotary_embedding(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  if (rank != 3 && rank != 4) c.invalid(fmt::format("the input has {} axes, not 3 or 4", rank));
  // [batch, heads, length, size], or [batch, length, heads, size]: the cosines follow.
  ValueId apart = x;
  if (rank == 3) {
    const int64_t heads = c.int_attribute("num_heads");
    const Dim width = c.dim(x, 2);
    if (heads < 1 || (width.is_constant() && width.value() % heads != 0))
      c.invalid(fmt::format("{} heads do not divide {} elements", heads, width.str()));
    apart = c.reshape(x, {c.dim(x, 0), c.dim(x, 1), heads, floor_div(width, heads)});
  }
  int64_t rotated = c.int_attribute("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = c.static_size(c.dim(apart, 3), "the size of a head");
  ValueId angles[2];
  for (const size_t i : {size_t{0}, size_t{1}}) {
    ValueId cache = c.input(1 + i);
    if (c.has(3)) cache = c.add(ops::Gather{0}, {cache, c.input(3)});
    if (c.rank(cache) != 3)
      c.invalid(fmt::format("the {} have {} axes, [batch, length, angles] are needed", i == 0 ? "cosines" : "sines",
                            c.rank(cache)));
    const Shape s = c.shape(cache);
    angles[i] = c.reshape(cache, rank == 4 ? Shape{s[0], 1, s[1], s[2]} : Shape{s[0], s[1], 1, s[2]});
  }
  const ValueId y = rotate(c, apart, angles[0], angles[1], rotated, c.int_attribute("interleaved", 0) != 0);
  return {c.reshape(y, c.shape(x))};
}

Values linear_attention(ConvertContext& c) {
  ops::LinearAttention op;
  op.heads = c.int_attribute("q_num_heads");
  op.key_heads = c.int_attribute("kv_num_heads");
  const std::string rule = c.string_attribute("update_rule", "gated_delta");
  op.gated = rule == "gated" || rule == "gated_delta";
  op.delta = rule == "delta" || rule == "gated_delta";
  if (!op.gated && !op.delta && rule != "linear") c.invalid(fmt::format("update_rule {} is unknown", quote(rule)));
  if (op.gated != c.has(4)) c.invalid(fmt::format("update_rule {} and the decay do not fit together", quote(rule)));
  if (op.delta != c.has(5)) c.invalid(fmt::format("update_rule {} and beta do not fit together", quote(rule)));
  op.scale = c.float_attribute("scale", 0);
  if (op.scale == 0 && c.rank(c.input(0)) == 3 && op.heads > 0) {
    const int64_t width = c.static_size(c.dim(c.input(0), 2), "the size of the query");
    op.scale = 1 / std::sqrt(static_cast<double>(width / op.heads));
  }
  Values inputs;
  for (size_t i = 0; i < 6; ++i) inputs.push_back(i < 3 ? c.input(i) : c.input_or_none(i));
  return c.results(op, std::move(inputs), {});
}

Values causal_conv_with_state(ConvertContext& c) {
  const ValueId x = c.input(0), weights = c.input(1);
  if (c.rank(x) != 3 || c.rank(weights) != 3)
    c.invalid(fmt::format("the input has {} axes and the weights {}, not 3", c.rank(x), c.rank(weights)));
  const int64_t channels = c.static_size(c.dim(weights, 0), "the number of channels");
  const int64_t kernel = c.static_size(c.dim(weights, 2), "the kernel's size");
  if (kernel < 1) c.invalid("the kernel is empty");
  const std::string activation = c.string_attribute("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    c.invalid(fmt::format("activation {} is unknown", quote(activation)));
  ValueId padded = x;
  if (c.has(3)) {
    padded = c.add(ops::Concat{2}, {c.input(3), x});
  } else if (kernel > 1) {
    padded = c.add(ops::Pad{ops::PadMode::constant, {0, 0, kernel - 1, 0, 0, 0}}, {x});
  }
  Values inputs{padded, weights};
  if (c.has(2)) inputs.push_back(c.input(2));
  ValueId y = c.add(ops::Conv{{1}, {0, 0}, {1}, channels}, std::move(inputs));
  if (activation != "none") {
    const DType dtype = c.dtype(y);
    const DType wide = dtype == DType::f64 ? dtype : DType::f32;
    y = c.cast(swish(c, c.cast(y, wide), 1), dtype);
  }
  return {y, slice_axis(c, padded, 2, c.dim(padded, 2) - Dim(kernel - 1), kernel - 1)};
}

Values flex_attention(ConvertContext& c) {
  const ValueId query = c.input(0), key = c.input(1), value = c.input(2);
  const DType dtype = c.dtype(query);
  const DType wide = softmax_precision(c).value_or(dtype == DType::f64 ? dtype : DType::f32);
  std::optional<double> scale;
  if (c.has_attribute("scale")) scale = c.float_attribute("scale");
  const auto modified = [&](const char* name, ValueId x) {
    if (!c.has_attribute(name)) return x;
    const Values results = c.subgraphs().inlined(c.graph_attribute(name), {x});
    if (results.size() != 1) c.invalid(fmt::format("{} has {} results instead of one", name, results.size()));
    if (c.graph().type(results[0]) != c.graph().type(x))
      c.invalid(fmt::format("{} turns {} into {}", name, to_string(c.graph().type(x)),
                            to_string(c.graph().type(results[0]))));
    return results[0];
  };
  const ValueId scores = modified("score_mod", c.cast(attention_scores(c, query, key, scale), wide));
  const ValueId probabilities = modified("prob_mod", c.add(ops::Softmax{3}, {scores}));
  return {c.cast(weighted_values(c, probabilities, value, wide), dtype)};
}

constexpr Converter attention_table[] = {
    {"Attention", attention, 23},
    {"CausalConvWithState", causal_conv_with_state, 27},
    {"LinearAttention", linear_attention, 27},
    {"RotaryEmbedding", rotary_embedding, 23},
};

constexpr Converter preview_table[] = {
    {"FlexAttention", flex_attention},
};

}  // namespace

std::span<const Converter> attention_converters() {
  return attention_table;
}
std::span<const Converter> preview_converters() {
  return preview_table;
}

}  // namespace camshaft::onnx
