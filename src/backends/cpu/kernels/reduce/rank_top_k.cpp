#include "backends/cpu/kernels/reduce/rank_top_k.h"

#include <limits>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/rank_top_k.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

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

#define CAMSHAFT_RANK(name, T)                                                               \
  void rank_##name(const T* line, int64_t count, int64_t k, bool largest, uint32_t* order) { \
    order_of(line, count, k, largest, order);                                                \
  }
CAMSHAFT_RANK(i16, int16_t)
CAMSHAFT_RANK(u16, uint16_t)
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
#undef CAMSHAFT_RANK

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
