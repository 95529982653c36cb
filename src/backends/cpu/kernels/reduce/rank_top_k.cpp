#include "backends/cpu/kernels/reduce/rank_top_k.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/rank_top_k.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/reduce/top_k_keys-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// The element in the upper half, larger the better it is, and the index in the lower one: no two keys are equal.
template <class T>
HWY_INLINE void order_of(const T* line, int64_t count, int64_t k, bool largest, uint32_t* order) {
  const hn::ScalableTag<int32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int32_t middle = std::numeric_limits<T>::min() < 0 ? 0 : 1 << 15;
  HWY_ALIGN int32_t keys[most_ranked + HWY_LANES(int32_t)], places[most_ranked + HWY_LANES(int32_t)];
  for (int64_t i = 0; i < count; ++i) {
    const int32_t signed_value = int32_t{line[i]} - middle, upper = largest ? signed_value : -1 - signed_value;
    keys[i] = upper * (1 << 16) + static_cast<int32_t>(0xffff - i);
  }
  for (int64_t i = count; i < count + lanes; ++i) keys[i] = 0;
  const auto one = hn::Set(d, 1);
  for (int64_t i = 0; i < count; i += lanes) {
    const auto own = hn::Load(d, keys + i);
    auto better = hn::Zero(d);
    for (int64_t j = 0; j < count; ++j)
      better = hn::Add(better, hn::IfThenElseZero(hn::Gt(hn::Set(d, keys[j]), own), one));
    hn::Store(better, d, places + i);
  }
  for (int64_t i = 0; i < count; ++i)
    if (places[i] < k) order[places[i]] = static_cast<uint32_t>(i);
}

// Those of `count` keys that are above a number, as `k` are, one behind the other, with their places; the number is
// looked for by halves. Of keys that are equal to the last of k the first ones. Nothing is left out where the least key
// is the lowest of all, than which no number is less.
template <class D, class Key = hn::TFromD<D>>
HWY_INLINE int64_t choose(D di, const Key* keys, int64_t count, int64_t k, Key* chosen, Key* index) {
  using Bits = std::make_unsigned_t<Key>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(di));
  Key below = *keys, above = *keys;
  auto least = hn::Set(di, below), most = least;
  int64_t n = 0, whole = 0;
  for (; whole + lanes <= count; whole += lanes) {
    least = hn::Min(least, hn::Load(di, keys + whole));
    most = hn::Max(most, hn::Load(di, keys + whole));
  }
  below = hn::GetLane(hn::MinOfLanes(di, least)), above = hn::GetLane(hn::MaxOfLanes(di, most));
  for (; whole < count; ++whole) below = std::min(below, keys[whole]), above = std::max(above, keys[whole]);
  const auto take = [&](auto is_taken) HWY_ATTR {
    auto place = hn::Iota(di, 0);  // goes on by additions: it is written to memory otherwise
    for (int64_t i = 0; i < count; i += lanes, place = hn::Add(place, hn::Set(di, static_cast<Key>(lanes)))) {
      const auto key = hn::Load(di, keys + i);
      const auto mask = hn::And(is_taken(key), hn::Lt(place, hn::Set(di, static_cast<Key>(count))));
      if constexpr (sizeof(Key) == 4) {
        // Not by CompressStore(), which some processors take 100 cycles for.
        hn::StoreU(hn::Compress(key, mask), di, chosen + n);
        hn::StoreU(hn::Compress(place, mask), di, index + n);
        n += static_cast<int64_t>(hn::CountTrue(di, mask));
      } else {  // for which Highway looks up a table that the compiler copies
        uint8_t bits[8] = {};
        hn::StoreMaskBits(di, mask, bits);
        for (uint32_t left = bits[0]; left != 0; left &= left - 1, ++n) {
          const int64_t at = i + std::countr_zero(left);
          chosen[n] = keys[at];
          index[n] = static_cast<Key>(at);
        }
      }
    }
  };
  if (k == count) {
    take([&](auto key) HWY_ATTR { return hn::Eq(key, key); });
    return n;
  }
  const auto larger_than = [&](Key than) HWY_ATTR {
    int64_t larger = 0;
    for (int64_t i = 0; i < count; i += lanes)
      larger += static_cast<int64_t>(hn::CountTrue(di, hn::Gt(hn::Load(di, keys + i), hn::Set(di, than))));
    return larger;
  };
  // At least k are above `below`, and fewer above `above`. Nothing lies below the lowest key, which masks write.
  if (below > std::numeric_limits<Key>::min()) {
    --below;
  } else if (larger_than(below) < k) {
    above = below;
  }
  while (static_cast<Bits>(above) - static_cast<Bits>(below) > 1) {
    const auto half =
        static_cast<Key>(static_cast<Bits>(below) + (static_cast<Bits>(above) - static_cast<Bits>(below)) / 2);
    const int64_t larger = larger_than(half);
    if (larger == k) {
      take([&](auto key) HWY_ATTR { return hn::Gt(key, hn::Set(di, half)); });
      return n;
    }
    (larger > k ? below : above) = half;
  }
  take([&](auto key) HWY_ATTR { return hn::Gt(key, hn::Set(di, above)); });
  take([&](auto key) HWY_ATTR { return hn::Eq(key, hn::Set(di, above)); });
  return k;
}

// Keys of 32 and 64 bits may be equal: an element is better than those behind it with its key, too. Places are counted
// among the k best alone, which takes a quarter of the comparisons where they are half of the line: ten lines of 100
// f32 took 4.8 us.
template <class T>
HWY_INLINE void order_of_words(const T* line, int64_t count, int64_t k, bool largest, uint32_t* order) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using Key = hn::TFromD<decltype(di)>;
  const hn::CappedTag<T, 1> one;
  // Ties are written behind the last of k, too.
  constexpr int64_t room = most_ranked_words + most_ranked_best + 2 * HWY_LANES(Key);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN Key keys[most_ranked_words + HWY_LANES(Key)], chosen[room], index[room], places[room];
  keys[0] = 0;  // or the compiler takes it for possible that there are none
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::Store(keys_of(d, hn::LoadU(d, line + i), largest), di, keys + i);
  for (; i < count; ++i) keys[i] = hn::GetLane(keys_of(one, hn::LoadU(one, line + i), largest));
  for (; i % lanes != 0; ++i) keys[i] = std::numeric_limits<Key>::min();
  const int64_t all = choose(di, keys, count, k, chosen, index);
  // Two vectors at once: their sums do not wait for one another, and each key is repeated once for both.
  auto place = hn::Iota(di, 0);
  const auto step = hn::Set(di, static_cast<Key>(lanes)), unit = hn::Set(di, 1);
  for (i = 0; i < all; i += 2 * lanes, place = hn::Add(place, hn::Add(step, step))) {
    const auto low = hn::LoadU(di, chosen + i), high = hn::LoadU(di, chosen + i + lanes);
    auto better_low = hn::Zero(di), better_high = hn::Zero(di);
    const auto add = [&](auto& sum, auto is_better)
                         HWY_ATTR { sum = hn::Add(sum, hn::IfThenElseZero(is_better, unit)); };
    int64_t j = 0;
    for (; j < i; ++j) {
      const auto other = hn::Set(di, chosen[j]);
      add(better_low, hn::Not(hn::Gt(low, other)));
      add(better_high, hn::Not(hn::Gt(high, other)));
    }
    for (const int64_t past = std::min(all, i + 2 * lanes); j < past; ++j) {
      const auto other = hn::Set(di, chosen[j]), own = hn::Set(di, static_cast<Key>(j));
      const auto is_before = [&](auto key, auto at) HWY_ATTR {
        return hn::Or(hn::Gt(other, key), hn::And(hn::Eq(other, key), hn::Lt(own, at)));
      };
      add(better_low, is_before(low, place));
      add(better_high, is_before(high, hn::Add(place, step)));
    }
    for (; j < all; ++j) {
      const auto other = hn::Set(di, chosen[j]);
      add(better_low, hn::Gt(other, low));
      add(better_high, hn::Gt(other, high));
    }
    hn::StoreU(better_low, di, places + i);
    hn::StoreU(better_high, di, places + i + lanes);
  }
  for (i = 0; i < all; ++i)
    if (places[i] < k) order[places[i]] = static_cast<uint32_t>(index[i]);
}

#define CAMSHAFT_RANK(name, T, order_of)                                                     \
  void rank_##name(const T* line, int64_t count, int64_t k, bool largest, uint32_t* order) { \
    order_of(line, count, k, largest, order);                                                \
  }
CAMSHAFT_RANK(i16, int16_t, order_of)
CAMSHAFT_RANK(u16, uint16_t, order_of)
CAMSHAFT_RANK(f32, float, order_of_words)
CAMSHAFT_RANK(i32, int32_t, order_of_words)
CAMSHAFT_RANK(u32, uint32_t, order_of_words)
CAMSHAFT_RANK(f64, double, order_of_words)
CAMSHAFT_RANK(i64, int64_t, order_of_words)
CAMSHAFT_RANK(u64, uint64_t, order_of_words)
#undef CAMSHAFT_RANK

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

#define CAMSHAFT_RANK(name, T)                                                              \
  HWY_EXPORT(rank_##name);                                                                  \
  void rank_top_k(const T* line, int64_t count, int64_t k, bool largest, uint32_t* order) { \
    HWY_DYNAMIC_DISPATCH(rank_##name)(line, count, k, largest, order);                      \
  }
CAMSHAFT_RANK(i16, int16_t)
CAMSHAFT_RANK(u16, uint16_t)
CAMSHAFT_RANK(f32, float)
CAMSHAFT_RANK(i32, int32_t)
CAMSHAFT_RANK(u32, uint32_t)
CAMSHAFT_RANK(f64, double)
CAMSHAFT_RANK(i64, int64_t)
CAMSHAFT_RANK(u64, uint64_t)
#undef CAMSHAFT_RANK

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
