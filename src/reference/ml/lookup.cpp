// The reference evaluation of find_keys.
#include "reference/ml/lookup.h"

#include <algorithm>
#include <numeric>

#include "base/thread_pool.h"
#include "ir/ops/lookup.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

template <class T>
bool is_before(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || (b != b && a == a);
  return a < b;
}

}  // namespace

std::vector<Tensor> FindKeys::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const int64_t count = context.input(1).size();
  Tensor out(DType::i64, x.dims());
  int64_t* to = out.as_mutable<int64_t>();
  visit_key(x.dtype(), [&]<class T>(const T&) {
    const T* keys = context.input(1).as<T>();
    const T* from = x.as<T>();
    context.pool.parallel_for(x.size(), 1 << 12, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* at = std::lower_bound(keys, keys + count, from[i], is_before<T>);
        const bool is_found = at != keys + count && !is_before(from[i], *at);
        if (!is_found && must_find) fail_rule("{} is none of the {} values that the model knows", from[i], count);
        to[i] = is_found ? at - keys : count;
      }
    });
  });
  return {std::move(out)};
}

std::vector<int64_t> order_of_keys(const Tensor& keys, bool last_wins) {
  std::vector<int64_t> order(static_cast<size_t>(keys.size()));
  std::iota(order.begin(), order.end(), 0);
  if (last_wins) std::reverse(order.begin(), order.end());
  visit_key(keys.dtype(), [&]<class T>(const T&) {
    const T* values = keys.as<T>();
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return is_before(values[a], values[b]); });
    const auto is_same = [&](int64_t a, int64_t b) { return !is_before(values[a], values[b]); };
    order.erase(std::unique(order.begin(), order.end(), is_same), order.end());
  });
  return order;
}

}  // namespace camshaft::ops
