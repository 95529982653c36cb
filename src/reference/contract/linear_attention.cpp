// The reference evaluation of linear_attention.
#include "ir/ops/linear_attention.h"

#include <algorithm>
#include <cmath>

#include "base/pieces.h"
#include "ir/ops/shape_rules.h"
#include "reference/element_io.h"

namespace camshaft::ops {

namespace {

int64_t head_size(int64_t width, int64_t heads, const char* what) {
  if (width % heads != 0) fail_rule("{}: {} heads do not divide {} elements", what, heads, width);
  return width / heads;
}

// `count` elements from `first` on, as doubles.
void load(const Tensor& t, int64_t first, std::vector<double>& out) {
  load_elements(t.dtype(), t.data(), first, 1, static_cast<int64_t>(out.size()), out.data());
}

}  // namespace

std::vector<Tensor> LinearAttention::evaluate(const EvalContext& context) const {
  check_fields(*this);
  const Tensor &query = context.input(in_query), &key = context.input(in_key), &value = context.input(in_value);
  const int64_t batch = query.dims()[0], time = query.dims()[1];
  const int64_t size = head_size(query.dims()[2], heads, "the query");
  const int64_t value_size = head_size(value.dims()[2], key_heads, "the value");
  const auto check = [&](size_t i, const Dims& dims) {
    if (context.has(i) && context.input(i).dims() != dims)
      fail_rule("{} must have the shape {}, it has {}", input_names[i], to_string(dims),
                to_string(context.input(i).dims()));
  };
  check(in_key, {batch, time, key_heads * size});
  check(in_value, {batch, time, key_heads * value_size});
  check(in_state, {batch, key_heads, size, value_size});
  const int64_t decay_width = context.has(in_decay) ? context.input(in_decay).dims()[2] : 0;
  const int64_t beta_width = context.has(in_beta) ? context.input(in_beta).dims()[2] : 0;
  if (gated) check(in_decay, {batch, time, decay_width == key_heads ? key_heads : key_heads * size});
  if (delta) check(in_beta, {batch, time, beta_width == 1 ? 1 : key_heads});

  Tensor y(query.dtype(), {batch, time, (Dim(heads) * Dim(value_size)).value()});
  Tensor last(context.has(in_state) ? context.input(in_state).dtype() : query.dtype(),
              {batch, key_heads, size, value_size});
  if (y.size() == 0 && last.size() == 0) return {std::move(y), std::move(last)};
  std::byte *y_data = y.mutable_data(), *last_data = last.mutable_data();
  const int64_t group = heads / key_heads;
  for_pieces(context.pool, batch * key_heads, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> state(static_cast<size_t>(size * value_size)), k(static_cast<size_t>(size)), q(k.size());
    std::vector<double> v(static_cast<size_t>(value_size)), out(v.size());
    std::vector<double> decay(decay_width == key_heads ? 1 : k.size()), beta(1);
    // sum[m] = Σ state[d][m] · by[d]
    const auto read = [&](const std::vector<double>& by, std::vector<double>& sum) {
      std::fill(sum.begin(), sum.end(), 0.0);
      for (size_t d = 0; d < by.size(); ++d)
        for (size_t m = 0; m < sum.size(); ++m) sum[m] += state[d * sum.size() + m] * by[d];
    };
    for (int64_t row = begin; row < end; ++row) {
      const int64_t b = row / key_heads, head = row % key_heads;
      std::fill(state.begin(), state.end(), 0.0);
      if (context.has(in_state)) load(context.input(in_state), row * size * value_size, state);
      for (int64_t t = 0; t < time; ++t) {
        cancellation_point();
        const int64_t at = b * time + t;
        load(key, (at * key_heads + head) * size, k);
        load(value, (at * key_heads + head) * value_size, v);
        if (gated) {
          load(context.input(in_decay), at * decay_width + head * static_cast<int64_t>(decay.size()), decay);
          for (size_t d = 0; d < k.size(); ++d) {
            const double factor = std::exp(decay[decay.size() == 1 ? 0 : d]);
            for (size_t m = 0; m < v.size(); ++m) state[d * v.size() + m] *= factor;
          }
        }
        if (delta) {
          load(context.input(in_beta), at * beta_width + (beta_width == 1 ? 0 : head), beta);
          read(k, out);
          for (size_t m = 0; m < v.size(); ++m) v[m] = beta[0] * (v[m] - out[m]);
        }
        for (size_t d = 0; d < k.size(); ++d)
          for (size_t m = 0; m < v.size(); ++m) state[d * v.size() + m] += k[d] * v[m];
        for (int64_t g = 0; g < group; ++g) {
          const int64_t query_head = at * heads + head * group + g;
          load(query, query_head * size, q);
          read(q, out);
          for (double& element : out) element *= scale;
          store_elements(y.dtype(), y_data, query_head * value_size, 1, value_size, out.data());
        }
      }
      store_elements(last.dtype(), last_data, row * size * value_size, 1, size * value_size, state.data());
    }
  });
  return {std::move(y), std::move(last)};
}

}  // namespace camshaft::ops
