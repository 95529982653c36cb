// Integers in the order of elements. Included once per instruction set.
#if defined(CAMSHAFT_CPU_KERNELS_TOP_K_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_KERNELS_TOP_K_KEYS_INL_H_
#undef CAMSHAFT_CPU_KERNELS_TOP_K_KEYS_INL_H_
#else
#define CAMSHAFT_CPU_KERNELS_TOP_K_KEYS_INL_H_
#endif

#include <cstring>
#include <limits>
#include <type_traits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys in the order of the elements: of floats -0 is 0, NaN above everything; of integers without a sign those with one
// that are as far from their middle. Turned round for the smallest.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToSigned<D>> keys_of(D d, hn::Vec<D> x, bool largest) {
  const hn::RebindToSigned<D> di;
  using Key = hn::TFromD<decltype(di)>;
  auto key = hn::BitCast(di, x);
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(di, hn::Add(x, hn::Zero(d)));
    const auto sign = hn::BitCast(di, hn::ShiftRight<1>(hn::BitCast(du, hn::BroadcastSignBit(bits))));
    key = hn::Xor(bits, sign);
    key = hn::IfThenElse(hn::RebindMask(di, hn::IsNaN(x)), hn::Set(di, std::numeric_limits<Key>::max()), key);
  } else if constexpr (std::is_unsigned_v<hn::TFromD<D>>) {
    key = hn::Xor(key, hn::Set(di, std::numeric_limits<Key>::lowest()));
  }
  return largest ? key : hn::Not(key);
}

// The lanes whose key is above its bound, as bits from the lowest on.
template <class DI>
HWY_INLINE uint64_t lanes_above(DI di, hn::Vec<DI> key, hn::Vec<DI> bound) {
  const auto is_above = hn::Gt(key, bound);
  if (hn::AllFalse(di, is_above)) return 0;
  uint8_t bits[8] = {};
  hn::StoreMaskBits(di, is_above, bits);
  uint64_t lanes = 0;
  std::memcpy(&lanes, bits, sizeof(lanes));
  return lanes;
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
