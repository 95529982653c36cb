// PagedAttention of com.microsoft: attention of sequences whose keys and values lie in blocks of a cache; and our own
// of the domain camshaft, whose caches of 8 bits have a scale for each head of each token, beside them in blocks, and
// whose scores may have a bias by distance.
// Beside it, what encoders and decoders that share such a cache need: stores into it, and attention that only reads it.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
// And products whose rows choose their matrix, of which updates by adapters of language models are made.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "ir/ops/gather_matmul.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/paged.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/reduce.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// Where the tokens of a step are.
struct TokenPlaces {
  ValueId sequence;  ///< i64 [tokens]; the last sequence for tokens of none
  ValueId position;  ///< i64 [tokens], in the sequence
  ValueId is_used;   ///< bool [tokens]: whether it is of a sequence
};

TokenPlaces token_places(ConvertContext& c, ValueId starts, ValueId past, const Dim& tokens) {
  const Dim sequences = c.dim(past, 0);
  const ValueId token = iota(c, tokens);
  const ValueId ends = slice_axis(c, c.cast(starts, DType::i64), 0, 1, sequences);
  // So many sequences end before it.
  const ValueId is_behind =
      c.add(F::logical_not, {c.add(F::less, {c.reshape(token, {tokens, 1}), c.reshape(ends, {1, sequences})})});
  const ValueId before = c.add(ops::Reduce{ops::ReduceKind::sum, {1}, false}, {c.cast(is_behind, DType::i64)});
  const ValueId is_used = c.add(F::less, {before, dim_scalar(c, sequences)});
  const ValueId sequence = c.add(F::min, {before, dim_scalar(c, sequences - Dim(1))});
  const ValueId first = c.add(ops::Gather{0}, {c.cast(starts, DType::i64), sequence});
  const ValueId earlier = c.add(ops::Gather{0}, {c.cast(past, DType::i64), sequence});
  return {sequence, c.add(F::add, {earlier, c.add(F::sub, {token, first})}), is_used};
}

// i64 [tokens]: the row of the cache for each, -1 for tokens of no sequence, and none of the cache where a position is
// negative or beyond the sequence's row of the block table: nothing is written then.
ValueId slots_of(ConvertContext& c, const TokenPlaces& places, ValueId table, const Dim& block_size) {
  const ValueId size = dim_scalar(c, block_size), width = dim_scalar(c, c.dim(table, 1));
  const ValueId index = c.add(F::div, {places.position, size});
  const ValueId is_before = c.add(F::less, {places.position, dim_scalar(c, 0)});
  const ValueId inside = c.add(F::logical_and, {c.add(F::logical_not, {is_before}), c.add(F::less, {index, width})});
  const ValueId safe = c.add(F::select, {inside, index, dim_scalar(c, 0)});
  const ValueId entry = c.add(F::add, {c.add(F::mul, {places.sequence, width}), safe});
  const ValueId blocks =
      c.add(ops::Gather{0}, {c.reshape(c.cast(table, DType::i64), {c.dim(table, 0) * c.dim(table, 1)}), entry});
  const ValueId slot = c.add(F::add, {c.add(F::mul, {blocks, size}), c.add(F::mod, {places.position, size})});
  const ValueId beyond = dim_scalar(c, Dim(std::numeric_limits<int64_t>::max()));
  return c.add(F::select, {places.is_used, c.add(F::select, {inside, slot, beyond}), dim_scalar(c, -1)});
}

// [tokens, heads·size] -> [tokens, heads, size]
ValueId heads_of(ConvertContext& c, ValueId x, int64_t heads, const Dim& size) {
  return c.reshape(x, {c.dim(x, 0), heads, size});
}

// What the operators of both domains are given.
struct PagedNode {
  ValueId key_cache, value_cache, starts, past, table;
  ValueId cosines = no_value, sines = no_value;
};

// Queries, keys and values: [tokens, heads, size].
struct Heads {
  ValueId query, key, value;
};

struct HeadCounts {
  int64_t own, shared;
  int64_t group() const { return own / shared; }
};

HeadCounts head_counts(ConvertContext& c) {
  const int64_t heads = c.int_attribute("num_heads"), key_heads = c.int_attribute("kv_num_heads");
  constexpr int64_t most_heads = int64_t{1} << 31;  // sums stay in range
  if (heads < 1 || heads > most_heads || key_heads < 1 || heads % key_heads != 0)
    c.invalid(fmt::format("{} heads of the query cannot share {} of the key", heads, key_heads));
  return {heads, key_heads};
}

Heads split_heads(ConvertContext& c, const PagedNode& node, const HeadCounts& counts) {
  const ValueId packed = c.input(0);
  const Dim size = c.dim(node.key_cache, 3);
  ValueId query = packed, key = c.input_or_none(1), value = c.input_or_none(2);
  if (!c.has(1)) {
    const Dim own = size * Dim(counts.own), shared = size * Dim(counts.shared);
    query = slice_axis(c, packed, 1, 0, own);
    key = slice_axis(c, packed, 1, own, shared);
    value = slice_axis(c, packed, 1, own + shared, shared);
  }
  return {heads_of(c, query, counts.own, size), heads_of(c, key, counts.shared, size),
          heads_of(c, value, counts.shared, c.dim(node.value_cache, 3))};
}

void rotate_heads(ConvertContext& c, const PagedNode& node, const TokenPlaces& places, Heads& heads) {
  if (node.cosines == no_value || node.sines == no_value)
    c.invalid("do_rotary is set, and the cosines or sines are missing");
  // Tokens of no sequence have any position.
  const ValueId position = c.add(F::select, {places.is_used, places.position, dim_scalar(c, 0)});
  const auto angles = [&](ValueId rows_of_all) {
    if (c.rank(rows_of_all) != 2) c.invalid("the cosines and sines must be matrices");
    const ValueId rows = c.add(ops::Gather{0}, {rows_of_all, position});
    return c.reshape(rows, {c.dim(position, 0), 1, c.dim(rows, 1)});
  };
  const ValueId cosines = angles(node.cosines), sines = angles(node.sines);
  const int64_t rotated = c.static_size(Dim(2) * c.dim(node.cosines, 1), "twice the number of angles");
  const bool interleaved = c.int_attribute("rotary_interleaved", 0) != 0;
  heads.query = rotate(c, heads.query, cosines, sines, rotated, interleaved);
  heads.key = rotate(c, heads.key, cosines, sines, rotated, interleaved);
}

ops::PagedAttention attention_of(ConvertContext& c, const PagedNode& node, const HeadCounts& counts) {
  ops::PagedAttention op;
  op.heads = counts.own;
  op.softcap = c.float_attribute("softcap", 0);
  op.window = std::max<int64_t>(c.int_attribute("local_window_size", -1), 0);
  op.causal = c.int_attribute("is_causal", 1) != 0;
  op.scale = c.float_attribute("scale", 0);
  if (op.scale == 0)
    op.scale = 1 / std::sqrt(static_cast<double>(c.static_size(c.dim(node.key_cache, 3), "the size of a head")));
  return op;
}

bool is_of_8_bits(DType dtype) {
  return dtype == DType::i8 || dtype == DType::f8e4m3;
}

// A scale of com.microsoft for the keys or values of `heads`, [heads, size] or a number; no_value: there is none.
ValueId scale_of(ConvertContext& c, size_t i, const char* attribute, ValueId cache, int64_t heads) {
  const std::string type = c.string_attribute(attribute, "NONE");
  const bool is_quantized = is_of_8_bits(c.dtype(cache));
  if (type != "NONE" && type != "PER_TENSOR" && type != "PER_CHANNEL")
    c.unsupported(fmt::format("{} '{}'", attribute, type));
  if ((type != "NONE") != is_quantized || c.has(i) != is_quantized)
    c.invalid(
        fmt::format("a cache of {} with {} '{}' and {} scale: caches of i8 and float8e4m3fn, and these alone, "
                    "are quantised",
                    to_string(c.dtype(cache)), attribute, type, c.has(i) ? "a" : "no"));
  if (!is_quantized) return no_value;
  return c.reshape(c.cast(c.input(i), DType::f32), type == "PER_TENSOR" ? Shape{} : Shape{Dim(heads), c.dim(cache, 3)});
}

// Heads of 3 axes times a scale, which neighbours share where there are more of them.
ValueId scaled(ConvertContext& c, ValueId heads, ValueId scale, const HeadCounts& counts) {
  if (scale == no_value) return heads;
  const DType dtype = c.dtype(heads);
  const Dim tokens = c.dim(heads, 0), size = c.dim(heads, 2);
  if (c.rank(scale) > 0) scale = c.reshape(scale, {1, Dim(counts.shared), 1, size});
  const ValueId grouped = c.reshape(c.widened(heads), {tokens, Dim(counts.shared), Dim(counts.group()), size});
  const ValueId product = c.add(F::mul, {grouped, scale});
  return c.cast(c.reshape(product, {tokens, Dim(counts.own), size}), dtype);
}

// A cache with the rows at their slots, in steps of a scale that is there already.
ValueId stored(ConvertContext& c, size_t output, ValueId cache, ValueId rows, ValueId scale, ValueId slots) {
  ValueId steps = rows;
  if (scale != no_value) {
    ops::Quantize op;
    op.dtype = c.dtype(cache);
    if (c.rank(scale) > 0) scale = c.reshape(scale, {1, c.dim(rows, 1), c.dim(rows, 2)});
    steps = c.add(op, {rows, scale});
  }
  return c.result_at(output, ops::PagedStore{}, {cache, c.cast(steps, c.dtype(cache)), slots});
}

void refuse_variants(ConvertContext& c) {
  if (const std::string layout = c.string_attribute("kv_cache_layout", "SEPARATE"); layout != "SEPARATE")
    c.unsupported(fmt::format("kv_cache_layout '{}'", layout));
  for (const char* name : {"k_cache_dtype", "v_cache_dtype"}) {
    const std::string type = c.string_attribute(name, "");
    if (type == "int4" || type == "float4e2m1") c.unsupported(fmt::format("a cache of {}", type));
  }
  if (c.int_attribute("rotary_offset", 0) != 0) c.unsupported("a rotary_offset");
  if (c.int_attribute("v_head_size", 0) != 0) c.unsupported("a v_head_size");
}

Values paged_attention(ConvertContext& c) {
  refuse_variants(c);
  const HeadCounts counts = head_counts(c);
  if (c.has(1) != c.has(2)) c.invalid("key and value must be given together");
  if (!c.has(3) || !c.has(4)) c.invalid("the caches of keys and values are missing");
  if (c.has(12) != c.has(13)) c.invalid("q_norm_weight and k_norm_weight must be given together");
  PagedNode node{.key_cache = c.input(3),
                 .value_cache = c.input(4),
                 .starts = c.input(5),
                 .past = c.input(6),
                 .table = c.input(7)};
  node.cosines = c.input_or_none(8);
  node.sines = c.input_or_none(9);

  Heads heads = split_heads(c, node, counts);
  if (c.has(12)) {
    const ops::LayerNorm norm{2, c.float_attribute("qk_norm_epsilon", 1e-6F), true};
    heads.query = c.add(norm, {heads.query, c.input(12)});
    heads.key = c.add(norm, {heads.key, c.input(13)});
  }
  const TokenPlaces places = token_places(c, node.starts, node.past, c.dim(c.input(0), 0));
  if (c.int_attribute("do_rotary", 0) != 0) rotate_heads(c, node, places, heads);
  const ValueId slots = c.has(10) ? c.input(10) : slots_of(c, places, node.table, c.dim(node.key_cache, 1));
  const ValueId key_scale = scale_of(c, 14, "k_quant_type", node.key_cache, counts.shared);
  const ValueId value_scale = scale_of(c, 15, "v_quant_type", node.value_cache, counts.shared);
  const ValueId keys = stored(c, 1, node.key_cache, heads.key, key_scale, slots);
  const ValueId values = stored(c, 2, node.value_cache, heads.value, value_scale, slots);

  // A scale that all tokens share is one of the query's and of the result's.
  const Dim tokens = c.dim(c.input(0), 0);
  const ValueId query = scaled(c, heads.query, key_scale, counts);
  Values operands{
      c.reshape(query, {tokens, c.dim(query, 2) * Dim(counts.own)}), keys, values, node.starts, node.past, node.table};
  if (c.has(11)) operands.push_back(c.input(11));
  const ops::PagedAttention op = attention_of(c, node, counts);
  if (value_scale == no_value) return {c.result_at(0, op, std::move(operands)), keys, values};
  const Dim size = c.dim(node.value_cache, 3);
  const ValueId steps = c.add(op, std::move(operands));
  const ValueId result = scaled(c, heads_of(c, steps, counts.own, size), value_scale, counts);
  return {c.result_at(0, ops::Reshape{{tokens, size * Dim(counts.own)}}, {result}), keys, values};
}

// (query, key, value, key_cache, value_cache, key_scales?, value_scales?, cumulative_sequence_length, past_seqlens,
// block_table, relative_bias?) -> output and the caches.
Values scaled_paged_attention(ConvertContext& c) {
  const HeadCounts counts = head_counts(c);
  PagedNode node{.key_cache = c.input(3),
                 .value_cache = c.input(4),
                 .starts = c.input(7),
                 .past = c.input(8),
                 .table = c.input(9)};
  const Heads heads = split_heads(c, node, counts);
  const TokenPlaces places = token_places(c, node.starts, node.past, c.dim(c.input(0), 0));
  const ValueId slots = slots_of(c, places, node.table, c.dim(node.key_cache, 1));
  if (c.has(5) != c.has(6)) c.invalid("key_scales and value_scales must be given together");
  const bool has_scales = c.has(5);
  const auto store = [&](size_t output, ValueId cache, size_t scales, ValueId rows) -> Values {
    if (!has_scales) return {stored(c, output, cache, rows, no_value, slots), no_value};
    return c.results_at({output, output + 2}, ops::PagedQuantize{}, {cache, c.input(scales), rows, slots});
  };
  const Values keys = store(1, node.key_cache, 5, heads.key);
  const Values values = store(2, node.value_cache, 6, heads.value);
  const ValueId query = c.reshape(heads.query, {c.dim(c.input(0), 0), c.dim(heads.query, 2) * Dim(counts.own)});
  Values operands{query, keys[0], values[0], node.starts, node.past, node.table, no_value, keys[1], values[1]};
  if (c.has(10)) operands.push_back(c.input(10));
  const ValueId result = c.result_at(0, attention_of(c, node, counts), std::move(operands));
  if (!has_scales) return {result, keys[0], values[0]};
  return {result, keys[0], values[0], keys[1], values[1]};
}

// (cache, rows, slots) -> the cache.
Values paged_store(ConvertContext& c) {
  return {c.result_at(0, ops::PagedStore{}, {c.input(0), c.cast(c.input(1), c.dtype(c.input(0))), c.input(2)})};
}

// (cache, scales, rows, slots) -> both.
Values paged_quantize(ConvertContext& c) {
  return c.results_at({0, 1}, ops::PagedQuantize{}, {c.input(0), c.input(1), c.input(2), c.input(3)});
}

// (query, key_cache, value_cache, cumulative_sequence_length, key_seqlens, block_table, key_scales?, value_scales?,
// relative_bias?) -> output. Every token of a sequence sees all of its keys, and nothing is stored.
Values paged_cross_attention(ConvertContext& c) {
  const HeadCounts counts = head_counts(c);
  const PagedNode node{.key_cache = c.input(1),
                       .value_cache = c.input(2),
                       .starts = c.input(3),
                       .past = c.input(4),
                       .table = c.input(5)};
  ops::PagedAttention op = attention_of(c, node, counts);
  op.causal = false;
  op.window = 0;
  // A sequence that is not causal has its past and as many keys as tokens: the past is what is left of its keys.
  const Dim sequences = c.dim(node.past, 0);
  const ValueId begins = slice_axis(c, node.starts, 0, 0, sequences),
                ends = slice_axis(c, node.starts, 0, 1, sequences);
  const ValueId past = c.add(F::sub, {node.past, c.add(F::sub, {ends, begins})});
  Values operands{c.input(0), node.key_cache, node.value_cache, node.starts, past, node.table};
  if (c.has(6) != c.has(7)) c.invalid("key_scales and value_scales must be given together");
  if (c.has(6) || c.has(8)) operands.insert(operands.end(), {no_value, c.input_or_none(6), c.input_or_none(7)});
  if (c.has(8)) operands.push_back(c.input(8));
  return {c.result_at(0, op, std::move(operands))};
}

// (X, indices, W) -> Y: row i is X[i] · W[indices[i]], or zeros.
Values gather_matmul(ConvertContext& c) {
  return {c.result_at(0, ops::GatherMatMul{}, {c.input(0), c.input(1), c.input(2)})};
}

constexpr Converter microsoft_paged_table[] = {
    {"PagedAttention", paged_attention},
};
constexpr Converter camshaft_table[] = {
    {"GatherMatMul", gather_matmul},
    {"PagedAttention", scaled_paged_attention},
    {"PagedCrossAttention", paged_cross_attention},
    {"PagedQuantize", paged_quantize},
    {"PagedStore", paged_store},
};

}  // namespace

std::span<const Converter> microsoft_paged_converters() {
  return microsoft_paged_table;
}
std::span<const Converter> camshaft_converters() {
  return camshaft_table;
}

}  // namespace camshaft::onnx
