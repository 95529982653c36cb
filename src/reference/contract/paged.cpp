// The reference evaluation of caches in blocks.
#include "ir/ops/paged.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/pieces.h"
#include "ir/ops/shape_rules.h"
#include "reference/element_io.h"
#include "reference/elements.h"

namespace camshaft::ops {

namespace {

// A copy of the cache with the rows at their slots.
Tensor stored(const Tensor& cache, const Tensor& given, const std::vector<int64_t>& slots) {
  const Tensor rows = unpack_subbyte(given);
  Tensor out = unpack_subbyte(cache).copy();
  const Dims& dims = out.dims();
  Dims expected(dims.begin() + 1, dims.end());
  expected[0] = rows.dims().at(0);
  if (rows.dims() != expected || static_cast<int64_t>(slots.size()) != expected[0])
    fail_rule("{} slots for rows of shape {}, and a cache of {}", slots.size(), to_string(rows.dims()),
              to_string(dims));
  const int64_t places = dims[0] * dims[1];
  for (size_t i = 0; i < slots.size(); ++i)
    if (slots[i] >= places) fail_rule("row {} goes to slot {} of {}", i, slots[i], places);
  if (rows.size() == 0) return pack_subbyte(out, cache.dtype());
  visit_storage(out.dtype(), [&]<class T>(const T&) {
    T* to = out.as_mutable<T>();
    const T* from = rows.as<T>();
    const int64_t inner = rows.size() / expected[0];
    PacedCancellation cancellation;
    for (size_t i = 0; i < slots.size(); ++i) {
      cancellation.did(1 + inner);
      if (slots[i] >= 0) std::copy_n(from + static_cast<int64_t>(i) * inner, inner, to + slots[i] * inner);
    }
  });
  return pack_subbyte(out, cache.dtype());
}

}  // namespace

std::vector<Tensor> PagedStore::evaluate(const EvalContext& context) const {
  return {stored(context.input(in_cache), context.input(in_rows), context.input(in_slots).to_ints())};
}

std::vector<Tensor> PagedQuantize::evaluate(const EvalContext& context) const {
  const Tensor &cache = context.input(in_cache), &rows = context.input(in_rows);
  const Dims& dims = rows.dims();
  const int64_t count = dims[0] * dims[1], size = dims[2];
  Tensor codes(cache.dtype(), dims), scales(DType::f32, {dims[0], dims[1]});
  for_pieces(context.pool, count, (int64_t{1} << 14) / std::max<int64_t>(1, size) + 1, [&](int64_t begin, int64_t end) {
    std::vector<double> x(static_cast<size_t>(size));
    for (int64_t row = begin; row < end; ++row) {
      load_elements(rows.dtype(), rows.data(), row * size, 1, size, x.data());
      float most = least;
      for (const double element : x)
        if (const auto magnitude = static_cast<float>(std::fabs(element)); !(magnitude <= most))
          most = std::isnan(most) ? most : magnitude;
      const float scale = most / highest(cache.dtype());
      for (double& element : x) {
        const float quotient = static_cast<float>(element) / scale;
        const bool is_integer = cache.dtype() == DType::i8;
        element = !is_integer            ? quotient
                  : std::isnan(quotient) ? 0
                                         : std::clamp(std::nearbyint(quotient), -128.0F, 127.0F);
      }
      store_elements(cache.dtype(), codes.mutable_data(), row * size, 1, size, x.data());
      scales.as_mutable<float>()[row] = scale;
    }
  });
  const std::vector<int64_t> slots = context.input(in_slots).to_ints();
  return {stored(cache, codes, slots), stored(context.input(in_scales), scales, slots)};
}

std::vector<Tensor> PagedAttention::evaluate(const EvalContext& context) const {
  const Tensor &query = context.input(in_query), &keys = context.input(in_keys), &values = context.input(in_values);
  const Dims& dims = keys.dims();
  const int64_t key_heads = dims[2], size = dims[3], value_size = values.dims()[3];
  if (key_heads < 1 || heads % key_heads != 0)
    fail_rule("{} heads of the query cannot share {} of the keys", heads, key_heads);
  if (query.dims()[1] != (Dim(heads) * Dim(size)).value())
    fail_rule("{} heads of {} are no rows of {}", heads, size, query.dims()[1]);
  if (!std::equal(dims.begin(), dims.begin() + 3, values.dims().begin()))
    fail_rule("the caches have shapes {} and {}", to_string(dims), to_string(values.dims()));
  const Tensor &starts = context.input(in_starts), &past = context.input(in_past), &table = context.input(in_table);
  if (starts.size() != past.size() + 1 || table.dims()[0] != past.size())
    fail_rule("{} starts, {} past lengths and {} rows of a block table", starts.size(), past.size(), table.dims()[0]);
  if (context.has(in_sink) && context.input(in_sink).size() != heads)
    fail_rule("{} sinks for {} heads", context.input(in_sink).size(), heads);
  for (const size_t i : {in_key_scales, in_value_scales})
    if (context.has(i) && !std::equal(dims.begin(), dims.begin() + 3, context.input(i).dims().begin()))
      fail_rule("scales of shape {} for caches of {}", to_string(context.input(i).dims()), to_string(dims));
  const PagedSequences at{.starts = starts.as<int32_t>(),
                          .past = past.as<int32_t>(),
                          .table = table.as<int32_t>(),
                          .sequences = past.size(),
                          .width = table.dims()[1],
                          .tokens = query.dims()[0],
                          .blocks = dims[0],
                          .block_size = dims[1],
                          .causal = causal};
  check_sequences(at);
  const float* bias = context.has(in_relative_bias) ? context.input(in_relative_bias).as<float>() : nullptr;
  const int64_t columns = bias ? context.input(in_relative_bias).dims()[1] : 1, reach = columns / 2;
  if (bias && (context.input(in_relative_bias).dims()[0] != heads || columns % 2 == 0))
    fail_rule("a relative bias of shape {} for {} heads", to_string(context.input(in_relative_bias).dims()), heads);

  Tensor y(query.dtype(), {at.tokens, (Dim(heads) * Dim(value_size)).value()});
  if (y.size() == 0) return {std::move(y)};
  std::byte* data = y.mutable_data();
  std::vector<double> sinks(static_cast<size_t>(heads));
  if (context.has(in_sink))
    load_elements(context.input(in_sink).dtype(), context.input(in_sink).data(), 0, 1, heads, sinks.data());
  // `count` elements of the row of a cache, as its scale makes them.
  const auto load_row = [&](size_t cache, size_t scales, int64_t row, int64_t count, double* to) {
    const Tensor& rows = context.input(cache);
    load_elements(rows.dtype(), rows.data(), row * count, 1, count, to);
    if (!context.has(scales)) return;
    double scale = 1;
    load_elements(context.input(scales).dtype(), context.input(scales).data(), row, 1, 1, &scale);
    for (int64_t d = 0; d < count; ++d) to[d] *= scale;
  };
  for_pieces(context.pool, at.tokens * heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> q(static_cast<size_t>(size)), k(q.size()), v(static_cast<size_t>(value_size)), sum(v.size());
    std::vector<double> scores;
    PacedCancellation cancellation;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t token = row / heads, head = row % heads, key_head = head / (heads / key_heads);
      std::fill(sum.begin(), sum.end(), 0.0);
      // Of sequences without tokens, that begin there too, the last one has it.
      const int64_t s = std::upper_bound(at.starts, at.starts + at.sequences + 1, token) - at.starts - 1;
      if (s >= 0 && s < at.sequences) {
        load_elements(query.dtype(), query.data(), row * size, 1, size, q.data());
        const int64_t position = at.past[s] + token - at.starts[s];
        const auto [first, last] = at.seen(*this, s, position);
        scores.resize(static_cast<size_t>(last - first));
        double top = context.has(in_sink) ? sinks[static_cast<size_t>(head)] : -std::numeric_limits<double>::infinity();
        for (int64_t p = first; p < last; ++p) {
          cancellation.did(size + value_size);
          load_row(in_keys, in_key_scales, at.slot(s, p) * key_heads + key_head, size, k.data());
          double score = 0;
          for (size_t d = 0; d < q.size(); ++d) score += q[d] * k[d];
          score *= scale;
          if (bias)
            score += static_cast<double>(bias[head * columns + reach + std::clamp(p - position, -reach, reach)]);
          if (softcap > 0) score = softcap * std::tanh(score / softcap);
          scores[static_cast<size_t>(p - first)] = score;
          top = score > top || std::isnan(score) ? score : top;
        }
        double total = context.has(in_sink) ? std::exp(sinks[static_cast<size_t>(head)] - top) : 0;
        for (int64_t p = first; p < last; ++p) {
          const double weight = std::exp(scores[static_cast<size_t>(p - first)] - top);
          total += weight;
          load_row(in_values, in_value_scales, at.slot(s, p) * key_heads + key_head, value_size, v.data());
          for (size_t d = 0; d < v.size(); ++d) sum[d] += weight * v[d];
        }
        for (double& element : sum) element /= total;
      }
      store_elements(y.dtype(), data, row * value_size, 1, value_size, sum.data());
    }
  });
  return {std::move(y)};
}

}  // namespace camshaft::ops
