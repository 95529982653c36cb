// PackedMultiHeadAttention of com.microsoft: attention in both directions of sequences of any length, whose tokens lie
// one behind the other without padding.
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
#include <fmt/format.h>

#include <cmath>

#include "ir/ops/move.h"
#include "ir/ops/paged.h"
#include "ir/ops/pointwise.h"
#include "onnx/attention.h"
#include "onnx/converters.h"
#include "onnx/generators.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

// Each [tokens, heads·size].
struct PackedRows {
  ValueId query, key, value;
};

PackedRows packed_rows(ConvertContext& c, int64_t heads) {
  const ValueId query = c.input(0), bias = c.input_or_none(3);
  if (c.has(1) != c.has(2)) c.invalid("key and value must be given together");
  if (!c.has(1)) {
    const Shape s = c.shape(query);
    if (s.size() != 4) c.invalid(fmt::format("a packed query has {} axes instead of 4", s.size()));
    if (bias != no_value) c.unsupported("a bias with packed query, key and value");
    const auto part = [&](int64_t i) { return c.reshape(slice_axis(c, query, 2, i, 1), {s[0], Dim(heads) * s[3]}); };
    return {part(0), part(1), part(2)};
  }
  for (const size_t i : {0, 1, 2})
    if (c.rank(c.input(i)) != 2) c.invalid(fmt::format("input {} has {} axes instead of 2", i, c.rank(c.input(i))));
  const Dim width = c.dim(query, 1), key_width = c.dim(c.input(1), 1);
  const auto biased = [&](ValueId x, const Dim& first) {
    return bias == no_value ? x : c.add(F::add, {x, slice_axis(c, bias, 0, first, c.dim(x, 1))});
  };
  return {biased(query, 0), biased(c.input(1), width), biased(c.input(2), width + key_width)};
}

// The rows are a cache of blocks of one position, and a sequence's row of the table counts from where it begins.
Values packed_multi_head_attention(ConvertContext& c) {
  const int64_t heads = c.int_attribute("num_heads");
  constexpr int64_t most_heads = int64_t{1} << 31;  // sums stay in range
  if (heads < 1 || heads > most_heads) c.invalid(fmt::format("{} heads", heads));
  if (c.has(6)) c.unsupported("an attention_bias");
  const PackedRows rows = packed_rows(c, heads);
  const ValueId offsets = c.input(4), starts = c.input(5);
  if (c.rank(offsets) != 2) c.invalid(fmt::format("token_offset has {} axes instead of 2", c.rank(offsets)));
  const Dim sequences = c.dim(offsets, 0), longest = c.dim(offsets, 1);
  const auto blocks = [&](ValueId x) {
    return c.reshape(x, {c.dim(x, 0), 1, Dim(heads), floor_div(c.dim(x, 1), heads)});
  };
  const ValueId keys = blocks(rows.key), values = blocks(rows.value);
  const ValueId first = c.reshape(slice_axis(c, starts, 0, 0, sequences), {sequences, 1});
  const ValueId table = c.add(F::add, {first, c.reshape(c.cast(iota(c, longest), DType::i32), {1, longest})});
  const ValueId past = c.add(ops::Expand{{sequences}}, {c.scalar(DType::i32, 0)});

  ops::PagedAttention op;
  op.heads = heads;
  op.causal = false;
  op.scale = c.float_attribute("scale", 0);
  if (op.scale == 0) op.scale = 1 / std::sqrt(static_cast<double>(c.static_size(c.dim(keys, 3), "the size of a head")));
  return c.result(op, {rows.query, keys, values, starts, past, table});
}

constexpr Converter microsoft_packed_table[] = {
    {"PackedMultiHeadAttention", packed_multi_head_attention},
};

}  // namespace

std::span<const Converter> microsoft_packed_converters() {
  return microsoft_packed_table;
}

}  // namespace camshaft::onnx
