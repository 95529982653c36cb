// Attention operators of the domain com.microsoft, which ONNX Runtime's optimisers write for exported transformers.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

void read_scale(ConvertContext& c, Attention& a) {
  if (const double scale = c.float_attribute("scale", 0); scale != 0) a.scale = scale;
}

ValueId less_than(ConvertContext& c, ValueId a, ValueId b) {
  return c.add(F::less, {a, b});
}

// Masks of these operators are numbers that are added: 0, or mask_filter_value.
ValueId mask_bias(ConvertContext& c, ValueId kept, DType dtype) {
  const double out = c.float_attribute("mask_filter_value", -10000.0F);
  return c.add(F::select, {kept, c.scalar(dtype, 0), c.scalar(dtype, out)});
}

// bool, to broadcast to [batch, heads, queries, keys]: which keys take part according to a mask of integers.
// [batch, keys], [batch, queries, keys] and [batch, 1, max, max] have an element a key; [batch] has the sequences'
// lengths, [2·batch] their ends, then their starts.
ValueId kept_keys(ConvertContext& c, ValueId mask, Dim batch, const Dim& queries, const Dim& keys) {
  const Shape s = c.shape(mask);
  const ValueId zero = c.scalar(c.dtype(mask), 0);
  switch (s.size()) {
    case 1: {
      const bool is_ends = s[0] == batch * Dim(2);
      // A symbol of another name may well be the batch: the broadcast checks it when running.
      if (s[0] == Dim(1) || (!is_ends && !(s[0] - batch).is_constant()) || s[0] == batch)
        return length_mask(c, mask, iota(c, keys));
      if (!is_ends) c.unsupported(fmt::format("a mask of {} elements for a batch of {}", s[0].str(), batch.str()));
      const ValueId before_end = length_mask(c, slice_axis(c, mask, 0, 0, batch), iota(c, keys));
      const ValueId before_start = length_mask(c, slice_axis(c, mask, 0, batch, batch), iota(c, keys));
      return c.add(F::logical_and, {before_end, c.add(F::logical_not, {before_start})});
    }
    case 2:
      return less_than(c, zero, c.reshape(mask, {s[0], 1, 1, s[1]}));
    case 3:
      return less_than(c, zero, c.reshape(mask, {s[0], 1, s[1], s[2]}));
    case 4: {
      const ValueId rows = slice_axis(c, mask, 2, keys - queries, queries);
      return less_than(c, zero, slice_axis(c, rows, 3, 0, keys));
    }
    default:
      c.invalid(fmt::format("the mask has {} axes", s.size()));
  }
}

// What Attention and MultiHeadAttention share: heads are apart, [batch, heads, length, size].
Values masked_attention(ConvertContext& c, Attention a, ValueId mask, ValueId bias, const Dim& past) {
  const DType dtype = c.dtype(a.query);
  const Dim queries = c.dim(a.query, 2), keys = c.dim(a.key, 2);
  read_scale(c, a);
  if (mask != no_value) a.biases.push_back(mask_bias(c, kept_keys(c, mask, c.dim(a.query, 0), queries, keys), dtype));
  if (bias != no_value) a.biases.push_back(bias);
  if (c.int_attribute("unidirectional", 0) != 0) {
    a.masks.push_back(causal_mask(c, queries, iota(c, keys), past == Dim(0) ? no_value : dim_scalar(c, past)));
    a.masked = std::numeric_limits<float>::lowest();
    if (dtype == DType::f16) a.masked = -65504;
  }
  const AttentionResult r = attention(c, a);
  return {merge_heads(c, r.y), r.biased};
}

Values microsoft_attention(ConvertContext& c) {
  const ValueId x = c.input(0), weights = c.input(1);
  if (c.rank(x) != 3 || c.rank(weights) != 2)
    c.invalid(fmt::format("the input has {} axes and the weights {}, 3 and 2 are needed", c.rank(x), c.rank(weights)));
  if (c.int_attribute("do_rotary", 0) != 0) c.unsupported("rotary embedding inside of Attention");
  if (c.int_attribute("past_present_share_buffer", 0) != 0) c.unsupported("past and present in one buffer");
  const int64_t heads = c.int_attribute("num_heads");
  const Dim width = c.dim(weights, 1);
  Shape sizes(3, floor_div(width, 3));
  if (const auto given = c.ints_attribute("qkv_hidden_sizes"); given && !given->empty()) {
    if (given->size() != 3) c.invalid(fmt::format("qkv_hidden_sizes has {} elements instead of 3", given->size()));
    sizes.assign(given->begin(), given->end());
  }
  if (const Dim rest = width - sizes[0] - sizes[1] - sizes[2]; rest.is_constant() && !(rest == Dim(0)))
    c.invalid(fmt::format("the weights have {} columns, query, key and value take {}, {} and {}", width.str(),
                          sizes[0].str(), sizes[1].str(), sizes[2].str()));
  ValueId projected = c.add(ops::MatMul{}, {x, weights});
  if (c.has(2)) projected = c.add(F::add, {projected, c.input(2)});
  Attention a;
  a.query = split_heads(c, slice_axis(c, projected, 2, 0, sizes[0]), heads);
  a.key = split_heads(c, slice_axis(c, projected, 2, sizes[0], sizes[1]), heads);
  a.value = split_heads(c, slice_axis(c, projected, 2, sizes[0] + sizes[1], sizes[2]), heads);
  Dim past = 0;
  if (c.has(4)) {
    const Shape s = c.shape(c.input(4));
    if (s.size() != 5) c.invalid(fmt::format("the past has {} axes instead of 5", s.size()));
    past = s[3];
    for (const int64_t i : {0, 1}) {
      ValueId& current = i == 0 ? a.key : a.value;
      const ValueId before = c.reshape(slice_axis(c, c.input(4), 0, i, 1), {s[1], s[2], s[3], s[4]});
      current = c.add(ops::Concat{2}, {before, current});
    }
  }
  Values outputs{masked_attention(c, a, c.input_or_none(3), c.input_or_none(5), past)[0]};
  if (!c.uses_output(1)) return outputs;
  Values halves;
  for (const ValueId half : {a.key, a.value}) {
    Shape s = c.shape(half);
    s.insert(s.begin(), Dim(1));
    halves.push_back(c.reshape(half, std::move(s)));
  }
  outputs.push_back(c.add(ops::Concat{0}, std::move(halves)));
  return outputs;
}

// [batch, length, heads, parts, size] -> part i as [batch, heads, length, size]
ValueId packed_part(ConvertContext& c, ValueId packed, int64_t i) {
  const Shape s = c.shape(packed);
  const ValueId part = c.reshape(slice_axis(c, packed, 3, i, 1), {s[0], s[1], s[2], s[4]});
  return c.add(ops::Transpose{{0, 2, 1, 3}}, {part});
}

// Where the inputs of an operator like MultiHeadAttention are.
struct MultiHeadInputs {
  size_t bias, mask, attention_bias, past_key, past_value;
};

// Query, key and value may each be [batch, length, heads·size]; the query may hold all three and the key two of them
// as [batch, length, heads, parts, size]; key and value may come as [batch, heads, length, size] of an earlier step.
Values multi_head_attention(ConvertContext& c, const MultiHeadInputs& in) {
  const int64_t heads = c.int_attribute("num_heads");
  ValueId query = c.input(0), key = c.input_or_none(1), value = c.input_or_none(2);
  const ValueId bias = c.input_or_none(in.bias);
  const auto biased = [&](ValueId x, const Dim& first) {
    return bias == no_value ? x : c.add(F::add, {x, slice_axis(c, bias, 0, first, c.dim(x, 2))});
  };
  Attention a;
  const bool packed = (key == no_value && c.rank(query) == 5) || (key != no_value && c.rank(key) == 5);
  if (packed) {
    if (bias != no_value) c.unsupported("a bias with packed query, key and value");
    const bool all = key == no_value;
    const ValueId both = all ? query : key;
    a.query = all ? packed_part(c, query, 0) : split_heads(c, query, heads);
    a.key = packed_part(c, both, all ? 1 : 0);
    a.value = packed_part(c, both, all ? 2 : 1);
  } else {
    if (key == no_value || value == no_value) c.invalid("the key or the value is missing");
    if (c.rank(query) != 3) c.invalid(fmt::format("the query has {} axes instead of 3", c.rank(query)));
    const Dim width = c.dim(query, 2);
    a.query = split_heads(c, biased(query, 0), heads);
    if (c.rank(key) == 4) {  // projected before: the bias is in them
      a.key = key;
      a.value = value;
    } else {
      if (c.rank(key) != 3 || c.rank(value) != 3)
        c.invalid(fmt::format("the key has {} axes and the value {}", c.rank(key), c.rank(value)));
      const Dim key_width = c.dim(key, 2);
      a.key = split_heads(c, biased(key, width), heads);
      a.value = split_heads(c, biased(value, width + key_width), heads);
    }
  }
  Dim past = 0;
  if (c.has(in.past_key) != c.has(in.past_value)) c.invalid("past key and value must be given together");
  if (c.has(in.past_key)) {
    for (const size_t i : {in.past_key, in.past_value})
      if (c.rank(c.input(i)) != 4) c.invalid(fmt::format("input {} has {} axes instead of 4", i, c.rank(c.input(i))));
    past = c.dim(c.input(in.past_key), 2);
    a.key = c.add(ops::Concat{2}, {c.input(in.past_key), a.key});
    a.value = c.add(ops::Concat{2}, {c.input(in.past_value), a.value});
  }
  const Values results = masked_attention(c, a, c.input_or_none(in.mask), c.input_or_none(in.attention_bias), past);
  return {results[0], a.key, a.value, no_value};
}

Values multi_head_attention(ConvertContext& c) {
  if (c.has(8) || c.has(9)) c.unsupported("past and present in one buffer (past_sequence_length, cache_indirection)");
  return multi_head_attention(c, {3, 4, 5, 6, 7});
}

Values decoder_masked_multi_head_attention(ConvertContext& c) {
  if (c.int_attribute("past_present_share_buffer", 0) != 0 || c.has(8) || c.has(9))
    c.unsupported("past and present in one buffer, and beams");
  return multi_head_attention(c, {10, 3, 4, 5, 6});
}

// The present key or value: of each sequence of the batch the first `past[b]` (i64 [batch, 1]) elements of the past
// buffer, then the new ones, then zeros, `positions` (i64 [length]) in all.
ValueId joined_cache(ConvertContext& c, ValueId before, ValueId current, ValueId past, ValueId positions) {
  const ValueId all = c.add(ops::Concat{2}, {before, current});
  const Shape s = c.shape(all);
  const Dim length = c.dim(positions, 0), count = c.dim(current, 2), buffer = c.dim(before, 2);
  // Position p is row p of the past, or row buffer + p - past[b].
  const ValueId is_past = less_than(c, positions, past);
  const ValueId shift = c.add(F::sub, {dim_scalar(c, buffer), past});
  const ValueId row = c.add(F::add, {positions, c.add(F::select, {is_past, dim_scalar(c, 0), shift})});
  const ValueId end = c.add(F::add, {past, dim_scalar(c, count)});
  const ValueId is_used = less_than(c, positions, end);
  const ValueId safe = c.add(F::select, {is_used, row, dim_scalar(c, 0)});
  // As rows of one matrix of all batches and heads.
  const ValueId first = c.add(F::mul, {iota(c, s[0] * s[1]), dim_scalar(c, s[2])});
  const ValueId index = c.add(F::add, {c.reshape(first, {s[0], s[1], 1}), c.reshape(safe, {s[0], 1, length})});
  const ValueId rows = c.reshape(all, {s[0] * s[1] * s[2], s[3]});
  const ValueId gathered = c.add(ops::Gather{0}, {rows, index});
  const ValueId used = c.reshape(is_used, {s[0], 1, length, 1});
  return c.add(F::select, {used, gathered, c.scalar(c.dtype(all), 0)});
}

struct GroupQueryInputs {
  ValueId query, key, value;  ///< [batch, heads, length, size]
};

GroupQueryInputs group_query_inputs(ConvertContext& c, int64_t heads, int64_t key_heads) {
  const ValueId query = c.input(0);
  constexpr int64_t most_heads = int64_t{1} << 31;  // sums stay in range
  if (heads < 1 || heads > most_heads || key_heads < 1 || heads % key_heads != 0)
    c.invalid(fmt::format("{} heads of the query cannot share {} of the key", heads, key_heads));
  if (c.has(1) != c.has(2)) c.invalid("key and value must be given together");
  if (c.has(1))
    return {split_heads(c, query, heads), split_heads(c, c.input(1), key_heads), split_heads(c, c.input(2), key_heads)};
  if (c.rank(query) != 3) c.invalid(fmt::format("the query has {} axes instead of 3", c.rank(query)));
  const Dim size = floor_div(c.dim(query, 2), heads + 2 * key_heads);
  const Dim own = size * Dim(heads), shared = size * Dim(key_heads);
  return {split_heads(c, slice_axis(c, query, 2, 0, own), heads),
          split_heads(c, slice_axis(c, query, 2, own, shared), key_heads),
          split_heads(c, slice_axis(c, query, 2, own + shared, shared), key_heads)};
}

void refuse_cache_variants(ConvertContext& c) {
  if (c.has(12) || c.has(13)) c.unsupported("a quantised cache");
  if (c.int_attribute("sliding_window_cache", 0) != 0) c.unsupported("a cache of the window's size");
  if (c.uses_output(3)) c.unsupported("the output of query times key");
}

Values group_query_attention(ConvertContext& c) {
  refuse_cache_variants(c);
  const GroupQueryInputs in = group_query_inputs(c, c.int_attribute("num_heads"), c.int_attribute("kv_num_heads"));
  const Dim batch = c.dim(in.query, 0), queries = c.dim(in.query, 2);
  const ValueId lengths = c.reshape(c.cast(c.input(5), DType::i64), {batch, 1});  // of the keys, less one
  const ValueId total = c.reshape(c.cast(c.input(6), DType::i64), {});
  const ValueId query_count = dim_scalar(c, queries);
  if (c.has(3) != c.has(4)) c.invalid("past key and value must be given together");
  const bool has_past = c.has(3) && !(c.dim(c.input(3), 2) == Dim(0));

  // How many positions are before the queries: none in the first step, which has the whole prompt.
  ValueId past = no_value;  // [batch, 1]
  if (has_past) {
    const ValueId one_less = dim_scalar(c, queries - Dim(1));
    const ValueId is_prompt = c.add(F::equal, {total, query_count});
    past = c.add(F::select, {is_prompt, dim_scalar(c, 0), c.add(F::sub, {lengths, one_less})});
  }
  Attention a;
  a.query = in.query;
  a.key = in.key;
  a.value = in.value;
  if (c.has(14) != c.has(15)) c.invalid("q_norm_weight and k_norm_weight must be given together");
  if (c.has(14)) {
    const ops::LayerNorm norm{3, c.float_attribute("qk_norm_epsilon", 1e-6F), true};
    a.query = c.add(norm, {a.query, c.input(14)});
    a.key = c.add(norm, {a.key, c.input(15)});
  }
  if (c.int_attribute("do_rotary", 0) != 0) {
    ValueId places = c.reshape(iota(c, queries), {1, queries});
    if (c.has(9)) {
      places = c.input(9);
      if (c.rank(places) != 2) c.invalid(fmt::format("the position ids have {} axes instead of 2", c.rank(places)));
    } else if (has_past) {
      places = c.add(F::add, {places, past});
    }
    ValueId angles[2];
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (c.rank(c.input(7 + i)) != 2) c.invalid("the cosines and sines must be matrices");
      const ValueId rows = c.add(ops::Gather{0}, {c.input(7 + i), places});
      const Shape s = c.shape(rows);
      angles[i] = c.reshape(rows, {s[0], 1, s[1], s[2]});
    }
    const int64_t rotated = c.static_size(Dim(2) * c.dim(c.input(7), 1), "twice the number of angles");
    const bool interleaved = c.int_attribute("rotary_interleaved", 0) != 0;
    a.query = rotate(c, a.query, angles[0], angles[1], rotated, interleaved);
    a.key = rotate(c, a.key, angles[0], angles[1], rotated, interleaved);
  }
  ValueId positions = no_value;  // of the keys
  if (has_past) {
    // As long as the past's buffer, or longer when it is full: known sizes, or what only running tells.
    const Dim buffer = c.dim(c.input(3), 2);
    const auto known = c.content(c.input(6));
    positions =
        known && known->size() == 1
            ? iota(c, max(buffer, (*known)[0]))
            : c.add(ops::Range{}, {dim_scalar(c, 0), c.add(F::max, {dim_scalar(c, buffer), total}), dim_scalar(c, 1)});
    a.key = joined_cache(c, c.input(3), a.key, past, positions);
    a.value = joined_cache(c, c.input(4), a.value, past, positions);
  } else {
    positions = iota(c, c.dim(a.key, 2));
  }
  read_scale(c, a);
  a.softcap = c.float_attribute("softcap", 0);
  if (c.has(10)) {
    ValueId bias = c.input(10);
    if (c.rank(bias) != 4) c.invalid(fmt::format("the attention bias has {} axes instead of 4", c.rank(bias)));
    // It ends with the last key; what the buffer has beyond is masked.
    const ValueId last = c.add(F::sub, {total, dim_scalar(c, 1)});
    if (!(c.dim(bias, 3) == c.dim(a.key, 2))) bias = c.add(ops::Gather{3}, {bias, c.add(F::min, {positions, last})});
    a.biases.push_back(bias);
  }
  if (c.int_attribute("causal", 1) != 0) {
    const ValueId first = past == no_value ? no_value : c.reshape(past, {batch, 1, 1, 1});
    const int64_t window = std::max<int64_t>(c.int_attribute("local_window_size", -1), 0);
    a.masks.push_back(causal_mask(c, queries, positions, first, window));
  } else {
    a.masks.push_back(length_mask(c, c.add(F::add, {lengths, dim_scalar(c, 1)}), positions));
  }
  if (c.has(11)) {
    a.sink = c.input(11);
  } else if (c.int_attribute("smooth_softmax", 0) > 0) {
    a.sink = c.add_constant(Tensor(c.dtype(a.query), {1}));
  }
  const AttentionResult r = attention(c, a);
  return {merge_heads(c, r.y), a.key, a.value};
}

Values microsoft_rotary_embedding(ConvertContext& c) {
  const ValueId x = c.input(0);
  const int64_t rank = c.rank(x);
  if (rank != 3 && rank != 4) c.invalid(fmt::format("the input has {} axes, not 3 or 4", rank));
  if (c.int_attribute("is_packed_batching", 0) != 0) c.unsupported("packed batches");
  if (c.float_attribute("scale", 1) != 1) c.unsupported("a scale");
  if (c.rank(c.input(2)) != 2 || c.rank(c.input(3)) != 2) c.invalid("the cosines and sines must be matrices");
  const int64_t rotated = c.static_size(Dim(2) * c.dim(c.input(2), 1), "twice the number of angles");
  const Dim length = c.dim(x, rank == 3 ? 1 : 2);
  ValueId apart = x;
  if (rank == 3) {
    const int64_t heads = c.int_attribute("num_heads", 0);
    const Dim width = c.dim(x, 2);
    if (heads < 0 || rotated == 0) c.invalid("there are no heads or no angles");
    const Dim size = heads > 0 ? floor_div(width, heads) : Dim(rotated);
    if (const Dim rest = width - size * floor_div(width, size); rest.is_constant() && !(rest == Dim(0)))
      c.invalid(fmt::format("heads of {} do not divide {} elements", size.str(), width.str()));
    apart = c.reshape(x, {c.dim(x, 0), length, floor_div(width, size), size});
  }
  // One number is the position of the first element.
  ValueId positions = c.cast(c.input(1), DType::i64);
  if (c.rank(positions) < 2) positions = c.add(F::add, {c.reshape(positions, {1, 1}), iota(c, length)});
  ValueId angles[2];
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const ValueId rows = c.add(ops::Gather{0}, {c.input(2 + i), positions});
    const Shape s = c.shape(rows);
    angles[i] = c.reshape(rows, rank == 4 ? Shape{s[0], 1, s[1], s[2]} : Shape{s[0], s[1], 1, s[2]});
  }
  const ValueId y = rotate(c, apart, angles[0], angles[1], rotated, c.int_attribute("interleaved", 0) != 0);
  return {c.reshape(y, c.shape(x))};
}

constexpr Converter microsoft_attention_table[] = {
    {"Attention", microsoft_attention},
    {"DecoderMaskedMultiHeadAttention", decoder_masked_multi_head_attention},
    {"GroupQueryAttention", group_query_attention},
    {"MultiHeadAttention", multi_head_attention},
    {"RotaryEmbedding", microsoft_rotary_embedding},
};

}  // namespace

std::span<const Converter> microsoft_attention_converters() {
  return microsoft_attention_table;
}

}  // namespace camshaft::onnx
