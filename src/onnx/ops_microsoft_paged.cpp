// PagedAttention of com.microsoft: attention of sequences whose keys and values lie in blocks of a cache.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/paged.h"
#include "ir/ops/pointwise.h"
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

void refuse_variants(ConvertContext& c) {
  if (const std::string layout = c.string_attribute("kv_cache_layout", "SEPARATE"); layout != "SEPARATE")
    c.unsupported(fmt::format("kv_cache_layout '{}'", layout));
  for (const char* name : {"k_quant_type", "v_quant_type"})
    if (const std::string type = c.string_attribute(name, "NONE"); type != "NONE")
      c.unsupported(fmt::format("a quantised cache ({} '{}')", name, type));
  for (const char* name : {"k_cache_dtype", "v_cache_dtype"}) {
    const std::string type = c.string_attribute(name, "");
    if (type == "int4" || type == "float4e2m1") c.unsupported(fmt::format("a cache of {}", type));
  }
  if (c.has(14) || c.has(15)) c.unsupported("a quantised cache");
  if (c.int_attribute("rotary_offset", 0) != 0) c.unsupported("a rotary_offset");
  if (c.int_attribute("v_head_size", 0) != 0) c.unsupported("a v_head_size");
}

Values paged_attention(ConvertContext& c) {
  refuse_variants(c);
  const int64_t heads = c.int_attribute("num_heads"), key_heads = c.int_attribute("kv_num_heads");
  constexpr int64_t most_heads = int64_t{1} << 31;  // sums stay in range
  if (heads < 1 || heads > most_heads || key_heads < 1 || heads % key_heads != 0)
    c.invalid(fmt::format("{} heads of the query cannot share {} of the key", heads, key_heads));
  if (c.has(1) != c.has(2)) c.invalid("key and value must be given together");
  if (!c.has(3) || !c.has(4)) c.invalid("the caches of keys and values are missing");
  if (c.has(12) != c.has(13)) c.invalid("q_norm_weight and k_norm_weight must be given together");
  const ValueId packed = c.input(0), starts = c.input(5), past = c.input(6), table = c.input(7);
  if (c.rank(packed) != 2) c.invalid(fmt::format("the query has {} axes instead of 2", c.rank(packed)));
  for (const size_t i : {size_t{3}, size_t{4}})
    if (c.rank(c.input(i)) != 4) c.invalid(fmt::format("a cache has {} axes instead of 4", c.rank(c.input(i))));
  for (const auto& [i, rank, what] :
       {std::tuple{size_t{5}, 1, "cumulative_sequence_length"}, std::tuple{size_t{6}, 1, "past_seqlens"},
        std::tuple{size_t{7}, 2, "block_table"}})
    if (c.rank(c.input(i)) != rank)
      c.invalid(fmt::format("{} has {} axes instead of {}", what, c.rank(c.input(i)), rank));
  const Dim tokens = c.dim(packed, 0), size = c.dim(c.input(3), 3), block_size = c.dim(c.input(3), 1);

  ValueId query = packed, key = c.input_or_none(1), value = c.input_or_none(2);
  if (!c.has(1)) {
    const Dim own = size * Dim(heads), shared = size * Dim(key_heads);
    query = slice_axis(c, packed, 1, 0, own);
    key = slice_axis(c, packed, 1, own, shared);
    value = slice_axis(c, packed, 1, own + shared, shared);
  }
  query = heads_of(c, query, heads, size);
  key = heads_of(c, key, key_heads, size);
  value = heads_of(c, value, key_heads, c.dim(c.input(4), 3));
  if (c.has(12)) {
    const ops::LayerNorm norm{2, c.float_attribute("qk_norm_epsilon", 1e-6F), true};
    query = c.add(norm, {query, c.input(12)});
    key = c.add(norm, {key, c.input(13)});
  }
  const TokenPlaces places = token_places(c, starts, past, tokens);
  if (c.int_attribute("do_rotary", 0) != 0) {
    if (!c.has(8) || !c.has(9)) c.invalid("do_rotary is set, and the cosines or sines are missing");
    // Tokens of no sequence have any position.
    const ValueId position = c.add(F::select, {places.is_used, places.position, dim_scalar(c, 0)});
    ValueId angles[2];
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (c.rank(c.input(8 + i)) != 2) c.invalid("the cosines and sines must be matrices");
      const ValueId rows = c.add(ops::Gather{0}, {c.input(8 + i), position});
      angles[i] = c.reshape(rows, {tokens, 1, c.dim(rows, 1)});
    }
    const int64_t rotated = c.static_size(Dim(2) * c.dim(c.input(8), 1), "twice the number of angles");
    const bool interleaved = c.int_attribute("rotary_interleaved", 0) != 0;
    query = rotate(c, query, angles[0], angles[1], rotated, interleaved);
    key = rotate(c, key, angles[0], angles[1], rotated, interleaved);
  }
  const ValueId slots = c.has(10) ? c.input(10) : slots_of(c, places, table, block_size);
  const ValueId keys = c.result_at(1, ops::PagedStore{}, {c.input(3), c.cast(key, c.dtype(c.input(3))), slots});
  const ValueId values = c.result_at(2, ops::PagedStore{}, {c.input(4), c.cast(value, c.dtype(c.input(4))), slots});

  ops::PagedAttention op;
  op.heads = heads;
  op.softcap = c.float_attribute("softcap", 0);
  op.window = std::max<int64_t>(c.int_attribute("local_window_size", -1), 0);
  op.causal = c.int_attribute("is_causal", 1) != 0;
  op.scale = c.float_attribute("scale", 0);
  if (op.scale == 0) op.scale = 1 / std::sqrt(static_cast<double>(c.static_size(size, "the size of a head")));
  const ValueId flat = c.reshape(query, {tokens, size * Dim(heads)});
  Values operands{flat, keys, values, starts, past, table};
  if (c.has(11)) operands.push_back(c.input(11));
  return {c.result_at(0, op, std::move(operands)), keys, values};
}

constexpr Converter microsoft_paged_table[] = {
    {"PagedAttention", paged_attention},
};

}  // namespace

std::span<const Converter> microsoft_paged_converters() {
  return microsoft_paged_table;
}

}  // namespace camshaft::onnx
