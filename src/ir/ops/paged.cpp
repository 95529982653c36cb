#include "ir/ops/paged.h"

#include <algorithm>

#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

void check_table(const InferContext& context, size_t i, const char* what, int64_t rank) {
  if (context.dtype(i) != DType::i32) fail_rule("{} must be i32, not {}", what, to_string(context.dtype(i)));
  if (context.rank(i) != rank) fail_rule("{} must have {} axes, not {}", what, rank, context.rank(i));
}

}  // namespace

std::vector<Inferred> PagedStore::infer(const InferContext& context) const {
  const TensorType &cache = context.type(in_cache), &rows = context.type(in_rows);
  if (cache.shape.size() < 2) fail_rule("the cache has {} axes, at least 2 are needed", cache.shape.size());
  if (rows.dtype != cache.dtype)
    fail_rule("the rows are {}, the cache is {}", to_string(rows.dtype), to_string(cache.dtype));
  if (rows.shape.size() + 1 != cache.shape.size())
    fail_rule("the rows have {} axes, the cache {}", rows.shape.size(), cache.shape.size());
  for (size_t i = 1; i < rows.shape.size(); ++i) same_size(cache.shape[i + 1], rows.shape[i], "cache and rows", i);
  check_index_dtype(context.dtype(in_slots), "the slots");
  if (context.rank(in_slots) != 1) fail_rule("the slots must have one axis, not {}", context.rank(in_slots));
  same_size(rows.shape[0], context.shape(in_slots)[0], "rows and slots", 0);
  return {Inferred{cache}};
}

std::vector<Inferred> PagedQuantize::infer(const InferContext& context) const {
  const TensorType &cache = context.type(in_cache), &scales = context.type(in_scales), &rows = context.type(in_rows);
  if (cache.shape.size() != 4 || (cache.dtype != DType::i8 && cache.dtype != DType::f8e4m3))
    fail_rule("the cache is {}, one of i8 or f8e4m3 with 4 axes is needed", to_string(cache));
  if (scales.shape.size() != 3 || scales.dtype != DType::f32)
    fail_rule("the scales are {}, those of f32 with 3 axes are needed", to_string(scales));
  if (rows.shape.size() != 3 || !is_floating(rows.dtype))
    fail_rule("the rows are {}, floats with 3 axes are needed", to_string(rows));
  for (size_t i = 0; i < 3; ++i) same_size(cache.shape[i], scales.shape[i], "cache and scales", i);
  for (size_t i = 1; i < 3; ++i) same_size(cache.shape[i + 1], rows.shape[i], "cache and rows", i);
  check_index_dtype(context.dtype(in_slots), "the slots");
  if (context.rank(in_slots) != 1) fail_rule("the slots must have one axis, not {}", context.rank(in_slots));
  same_size(rows.shape[0], context.shape(in_slots)[0], "rows and slots", 0);
  return {Inferred{cache}, Inferred{scales}};
}

std::vector<Inferred> PagedAttention::infer(const InferContext& context) const {
  constexpr int64_t most_heads = int64_t{1} << 31;  // products with sizes stay in range
  if (heads < 1 || heads > most_heads) fail_rule("{} heads", heads);
  if (window < 0) fail_rule("a window of {} keys", window);
  const Shape& query = context.shape(in_query);
  if (query.size() != 2) fail_rule("the query has {} axes instead of 2", query.size());
  if (!is_floating(context.dtype(in_query)))
    fail_rule("the query must be floating-point, not {}", to_string(context.dtype(in_query)));
  for (const size_t i : {in_keys, in_values}) {
    const char* what = i == in_keys ? "the cache of keys" : "the cache of values";
    if (context.rank(i) != 4) fail_rule("{} has {} axes instead of 4", what, context.rank(i));
    if (!is_floating(context.dtype(i)) && context.dtype(i) != DType::i8)
      fail_rule("{} must be floating-point or i8, not {}", what, to_string(context.dtype(i)));
    for (const size_t axis : {size_t{0}, size_t{1}, size_t{2}})
      same_size(context.shape(in_keys)[axis], context.shape(i)[axis], what, axis);
  }
  const Shape &keys = context.shape(in_keys), &values = context.shape(in_values);
  same_size(keys[3] * Dim(heads), query[1], "the query", 1);
  if (const auto shared = keys[2].as_constant(); shared && (*shared < 1 || heads % *shared != 0))
    fail_rule("{} heads of the query cannot share {} of the keys", heads, *shared);
  check_table(context, in_starts, "the starts", 1);
  check_table(context, in_past, "the past lengths", 1);
  check_table(context, in_table, "the block table", 2);
  same_size(context.shape(in_past)[0] + Dim(1), context.shape(in_starts)[0], "the starts", 0);
  same_size(context.shape(in_past)[0], context.shape(in_table)[0], "the block table", 0);
  if (context.has(in_sink)) {
    if (context.rank(in_sink) != 1 || !is_floating(context.dtype(in_sink)))
      fail_rule("the sink is {}, a float for each head is needed", to_string(context.type(in_sink)));
    same_size(Dim(heads), context.shape(in_sink)[0], "the sink", 0);
  }
  for (const size_t i : {in_key_scales, in_value_scales}) {
    if (!context.has(i)) continue;
    const char* what = i == in_key_scales ? "the scales of keys" : "the scales of values";
    if (context.rank(i) != 3 || !is_floating(context.dtype(i)))
      fail_rule("{} are {}, a float for each row of the cache is needed", what, to_string(context.type(i)));
    for (size_t axis = 0; axis < 3; ++axis) same_size(keys[axis], context.shape(i)[axis], what, axis);
  }
  if (context.has(in_relative_bias)) {
    const TensorType& bias = context.type(in_relative_bias);
    if (bias.shape.size() != 2 || bias.dtype != DType::f32)
      fail_rule("the relative bias is {}, f32 of each head and distance is needed", to_string(bias));
    same_size(Dim(heads), bias.shape[0], "the relative bias", 0);
    if (const auto columns = bias.shape[1].as_constant(); columns && *columns % 2 == 0)
      fail_rule("the relative bias has {} columns: an odd number is needed, as many before the middle as behind it",
                *columns);
  }
  return {{{context.dtype(in_query), {query[0], values[3] * Dim(heads)}}}};
}

std::pair<int64_t, int64_t> PagedSequences::seen(const PagedAttention& op, int64_t s, int64_t position) const {
  const int64_t end = op.causal ? position + 1 : length(s);
  return {op.window > 0 ? std::max<int64_t>(0, position + 1 - op.window) : 0, end};
}

void check_sequences(const PagedSequences& q) {
  if (q.sequences > 0 && q.starts[0] != 0) fail_rule("the first sequence starts at token {}, not 0", q.starts[0]);
  for (int64_t s = 0; s < q.sequences; ++s) {
    if (q.queries(s) < 0 || q.starts[s + 1] > q.tokens)
      fail_rule("sequence {} has tokens {} to {} of {}", s, q.starts[s], q.starts[s + 1], q.tokens);
    if (q.past[s] < 0 && (q.causal || q.length(s) < 0))
      fail_rule("sequence {} has {} tokens in the cache", s, q.causal ? q.past[s] : q.length(s));
    if (q.queries(s) == 0) continue;
    const int64_t used = q.block_size > 0 ? (q.length(s) + q.block_size - 1) / q.block_size : q.width + 1;
    if (used > q.width)
      fail_rule("sequence {} has {} tokens, for which its row of the block table is too short: {} blocks of {}", s,
                q.length(s), q.width, q.block_size);
    for (int64_t b = 0; b < used; ++b)
      if (const int32_t block = q.table[s * q.width + b]; block < 0 || block >= q.blocks)
        fail_rule("the block table of sequence {} names block {} of {}", s, block, q.blocks);
  }
}

}  // namespace camshaft::ops
