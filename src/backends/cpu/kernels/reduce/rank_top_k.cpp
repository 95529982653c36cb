#include "backends/cpu/kernels/reduce/rank_top_k.h"

#include <algorithm>
#include <limits>

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

// Keys of 32 bits may be equal: an element is better than those behind it with its key, too.
template <class T>
HWY_INLINE void order_of_words(const T* line, int64_t count, int64_t k, bool largest, uint32_t* order) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN int32_t keys[most_ranked + HWY_LANES(int32_t)] = {}, places[most_ranked + HWY_LANES(int32_t)];
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::Store(keys_of(d, hn::LoadU(d, line + i), largest), di, keys + i);
  for (; i < count; ++i) keys[i] = hn::GetLane(keys_of(one, hn::LoadU(one, line + i), largest));
  const auto unit = hn::Set(di, 1);
  for (i = 0; i < count; i += lanes) {
    const auto own = hn::Load(di, keys + i), index = hn::Iota(di, static_cast<int32_t>(i));
    auto better = hn::Zero(di);
    const auto add = [&](auto is_better) HWY_ATTR { better = hn::Add(better, hn::IfThenElseZero(is_better, unit)); };
    int64_t j = 0;
    for (; j < i; ++j) add(hn::Not(hn::Gt(own, hn::Set(di, keys[j]))));
    for (const int64_t past = std::min(count, i + lanes); j < past; ++j) {
      const auto other = hn::Set(di, keys[j]);
      add(hn::Or(hn::Gt(other, own), hn::And(hn::Eq(other, own), hn::Lt(hn::Set(di, static_cast<int32_t>(j)), index))));
    }
    for (; j < count; ++j) add(hn::Gt(hn::Set(di, keys[j]), own));
    hn::Store(better, di, places + i);
  }
  for (i = 0; i < count; ++i)
    if (places[i] < k) order[places[i]] = static_cast<uint32_t>(i);
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
#undef CAMSHAFT_RANK

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
