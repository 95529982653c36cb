// The reference evaluation of attention.
#include "ir/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/pieces.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

// The probabilities of one row of scores, in place.
void softmax(std::vector<double>& row, bool zero_undefined) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double v : row) largest = largest != largest || largest > v ? largest : v;
  PacedCancellation cancellation;
  for (double& v : row) {
    cancellation.did(1);
    sum += v = std::exp(v - largest);
  }
  const bool zero = zero_undefined && sum != sum;
  for (double& v : row) v = zero ? 0 : v / sum;
}

}  // namespace

std::vector<Tensor> Attention::evaluate(const EvalContext& context) const {
  std::vector<Dims> dims;
  for (const Tensor& t : context.inputs) dims.push_back(t.dims());
  Tensor out(context.input(in_query).dtype(), context.output_dims(0));
  const BoundAttention bound = bind_attention(*this, dims, out.dims(), context.bindings);
  if (out.size() == 0) return {std::move(out)};
  std::byte* target = out.mutable_data();
  const auto load = [&](size_t i, int64_t first, int64_t step, int64_t n, double* to) {
    load_elements(context.input(i).dtype(), context.input(i).data(), first, step, n, to);
  };
  const auto mask_scores = [&](size_t o, size_t q, std::vector<double>& row) {
    for (size_t m = 0; m < bound.masks.size(); ++m) {
      const AttentionAccess& at = bound.masks[m];
      const bool keeps = context.input(first_mask + m).dtype() == DType::boolean;
      for (size_t k = 0; k < row.size(); ++k) {
        double value = 0;
        load(first_mask + m, at.outer[o] + at.rows[q] + at.columns[k], 1, 1, &value);
        row[k] = !keeps ? row[k] + value : value != 0 ? row[k] : masked[m];
      }
    }
  };
  for_pieces(context.pool, bound.outer, 1, [&](int64_t begin, int64_t end) {
    const auto keys = static_cast<size_t>(bound.keys), d = static_cast<size_t>(size),
               v = static_cast<size_t>(value_size);
    std::vector<double> all_keys(keys * d), all_values(keys * v), query(d), scores(keys), sums(v);
    PacedCancellation cancellation;
    for (auto o = static_cast<size_t>(begin); o < static_cast<size_t>(end); ++o) {
      for (size_t k = 0; k < keys; ++k) {
        cancellation.did(size + value_size);
        load(in_key, bound.key.outer[o] + bound.key.rows[k], bound.key.column, size, &all_keys[k * d]);
        load(in_value, bound.value.outer[o] + bound.value.rows[k], bound.value.column, value_size, &all_values[k * v]);
      }
      for (size_t q = 0; q < static_cast<size_t>(bound.queries); ++q) {
        cancellation_point();
        load(in_query, bound.query.outer[o] + bound.query.rows[q], bound.query.column, size, query.data());
        for (size_t k = 0; k < keys; ++k) {
          cancellation.did(size);
          double sum = 0;
          for (size_t i = 0; i < d; ++i) sum += query[i] * all_keys[k * d + i];
          scores[k] = softcap > 0 ? softcap * std::tanh(scale * sum / softcap) : scale * sum;
        }
        mask_scores(o, q, scores);
        softmax(scores, zero_undefined);
        std::fill(sums.begin(), sums.end(), 0.0);
        for (size_t k = 0; k < keys; ++k)
          for (size_t i = 0; i < v; ++i) sums[i] += scores[k] * all_values[k * v + i];
        store_elements(out.dtype(), target, bound.result.outer[o] + bound.result.rows[q], bound.result.column,
                       value_size, sums.data());
      }
    }
  });
  return {std::move(out)};
}

}  // namespace camshaft::ops
