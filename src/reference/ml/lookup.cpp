// The reference evaluation of find_keys.
#include "reference/ml/lookup.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/pieces.h"
#include "ir/ops/lookup.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

template <class T>
bool is_before(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) return a < b || (b != b && a == a);
  return a < b;
}

// The first of the sorted keys that is not before x. Numbers without branches, none of which could be predicted: 10^5
// look-ups among 25 keys took 2 ms.
template <class T>
const T* first_not_before(const T* keys, int64_t count, const T& x) {
  if constexpr (std::is_arithmetic_v<T>) {
    if (count == 0) return keys;
    for (int64_t left = count; left > 1;) {
      const int64_t half = left / 2;
      keys += is_before(keys[half - 1], x) ? half : 0;
      left -= half;
    }
    return keys + (is_before(*keys, x) ? 1 : 0);
  } else {
    return std::lower_bound(keys, keys + count, x, is_before<T>);
  }
}

template <class T>
void find_keys_of(const FindKeys& op, std::span<const T> x, std::span<const T> all_keys, ThreadPool& pool,
                  int64_t* to) {
  const T *const from = x.data(), *const keys = all_keys.data();
  const auto size = std::ssize(x), count = std::ssize(all_keys);
  if constexpr (std::is_integral_v<T>) {
    // Keys that lie close together are places in a table: 10^5 look-ups among 25 keys took 1.8 ms by search.
    const int64_t low = count > 0 ? keys[0] : 0, high = count > 0 ? keys[count - 1] : 0;
    constexpr int64_t most = 1 << 12;
    if (count > 0 && static_cast<uint64_t>(high) - static_cast<uint64_t>(low) < static_cast<uint64_t>(most)) {
      std::vector<int64_t> places(static_cast<size_t>(high - low + 1), count);
      for (int64_t k = count; k-- > 0;) {
        // A damaged engine's keys are in any order: the first and the last say nothing of those between them.
        const uint64_t at = static_cast<uint64_t>(keys[k]) - static_cast<uint64_t>(low);
        if (at >= places.size()) fail_rule("the keys of a look-up are not in ascending order, at {}", keys[k]);
        places[at] = k;
      }
      for_pieces(pool, size, 1 << 14, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const uint64_t at = static_cast<uint64_t>(from[i]) - static_cast<uint64_t>(low);
          to[i] = at < places.size() ? places[at] : count;
          if (to[i] == count && op.must_find)
            fail_rule("{} is none of the {} values that the model knows", from[i], count);
        }
      });
      return;
    }
  }
  for_pieces(pool, size, 1 << 12, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* at = first_not_before(keys, count, from[i]);
      const bool is_found = at != keys + count && !is_before(from[i], *at);
      if (!is_found && op.must_find) fail_rule("{} is none of the {} values that the model knows", from[i], count);
      to[i] = is_found ? at - keys : count;
    }
  });
}

}  // namespace

void find_keys(const FindKeys& op, DType dtype, const void* x, int64_t size, const void* keys, int64_t count,
               ThreadPool& pool, int64_t* to) {
  visit_key(dtype, [&]<class T>(const T&) {
    find_keys_of<T>(op, {static_cast<const T*>(x), static_cast<size_t>(size)},
                    {static_cast<const T*>(keys), static_cast<size_t>(count)}, pool, to);
  });
}

std::vector<Tensor> FindKeys::evaluate(const EvalContext& context) const {
  const Tensor &x = context.input(0), &keys = context.input(1);
  Tensor out(DType::i64, x.dims());
  visit_key(x.dtype(), [&]<class T>(const T&) {
    find_keys(*this, x.dtype(), x.as<T>(), x.size(), keys.as<T>(), keys.size(), context.pool,
              out.as_mutable<int64_t>());
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
