// The loops that make integers of floats: truncated, saturated, NaN is 0, as convert_element() has it. Included once
// per instruction set.
#if defined(CAMSHAFT_CPU_KERNELS_TRUNCATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_KERNELS_TRUNCATE_INL_H_
#undef CAMSHAFT_CPU_KERNELS_TRUNCATE_INL_H_
#else
#define CAMSHAFT_CPU_KERNELS_TRUNCATE_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/pack_bytes-inl.h"
#include "backends/cpu/kernels/pointwise/convert_element-inl.h"
#include "backends/cpu/kernels/pointwise/vector_math-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// f32 to integers of up to 32 bits: truncated, saturated, NaN is 0. Highway's conversion to i32 saturates, and so do
// those from there to fewer bits: with limits in f32 before it, 10^6 elements from L3 took 119 to 126 us instead of 95.
template <class T>
HWY_INLINE auto truncated(hn::Vec<hn::ScalableTag<float>> x) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto number = hn::IfThenElseZero(hn::Eq(x, x), x);
  if constexpr (std::is_same_v<T, int32_t>) {
    return hn::ConvertTo(di, number);
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    const auto half = hn::Set(d, 0x1p31f), positive = hn::Max(number, hn::Zero(d));
    const auto upper = hn::Ge(positive, half);
    const auto rest = hn::ConvertTo(di, hn::Sub(positive, hn::IfThenElseZero(upper, half)));
    return hn::BitCast(hn::RebindToUnsigned<decltype(d)>(),
                       hn::Xor(rest, hn::BitCast(di, hn::IfThenElseZero(upper, hn::SignBit(d)))));
  } else if constexpr (std::is_same_v<T, uint8_t>) {  // Highway 1.0 makes 0 of 32768 here
    const auto inside = hn::Min(hn::Max(number, hn::Zero(d)), hn::Set(d, 255));
    return hn::TruncateTo(hn::Rebind<T, decltype(d)>(),
                          hn::BitCast(hn::RebindToUnsigned<decltype(d)>(), hn::ConvertTo(di, inside)));
  } else {
    return hn::DemoteTo(hn::Rebind<T, decltype(d)>(), hn::ConvertTo(di, number));
  }
}

// i32 that, saturated to T of 8 or 16 bits, are the numbers truncated.
template <class T>
HWY_INLINE hn::Vec<hn::ScalableTag<int32_t>> truncated_to_pack(hn::Vec<hn::ScalableTag<float>> x) {
#if CAMSHAFT_HAS_BYTE_PRODUCT
  // What is too small or NaN becomes the lowest i32, which is 0 where T has no sign: 10^6 elements took 194 us with the
  // limits of u16 in i32 and Highway's conversion.
  const hn::ScalableTag<float> d;
  const auto most = hn::Set(d, std::numeric_limits<T>::max());
  const auto number = std::is_signed_v<T> ? hn::IfThenElseZero(hn::Eq(x, x), x) : x;
  return truncate_to_integers(min_or_second(most, number));
#else
  return truncated<int32_t>(x);
#endif
}

template <class T>
void f32_to_integer(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const float*>(in[0]);
  auto* o = static_cast<T*>(out);
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const hn::ScalableTag<float> d;
    const hn::Rebind<T, decltype(d)> to;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    if constexpr (sizeof(T) < 4) {
      constexpr int vectors = 4 / static_cast<int>(sizeof(T));
      hn::Vec<hn::ScalableTag<int32_t>> whole[vectors];
      for (; !(uniform & 1) && i + vectors * lanes <= n; i += vectors * lanes) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) whole[v] = truncated_to_pack<T>(hn::LoadU(d, a + i + v * lanes));
        if constexpr (sizeof(T) == 1) {
          store_bytes(whole, o + i);
        } else {
          store_words(whole, o + i);
        }
      }
    }
    for (; !(uniform & 1) && i + lanes <= n; i += lanes) hn::StoreU(truncated<T>(hn::LoadU(d, a + i)), to, o + i);
    // A last vector that overlaps the one before, unless the output is the operand.
    if (sizeof(T) < 4 && i < n && i > 0)
      hn::StoreU(truncated<T>(hn::LoadU(d, a + n - lanes)), to, o + n - lanes), i = n;
  }
  for (; i < n; ++i) o[i] = convert_element<T>(a[uniform & 1 ? 0 : i]);
}

// f64 to integers of at most 32 bits likewise, through i32.
template <class T>
void f64_to_integer(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const double*>(in[0]);
  auto* o = static_cast<T*>(out);
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const hn::ScalableTag<double> d;
    const hn::Rebind<int32_t, decltype(d)> di;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto lo = hn::Set(d, static_cast<double>(std::numeric_limits<T>::lowest()));
    const auto hi = hn::Set(d, static_cast<double>(std::numeric_limits<T>::max()));
    constexpr int64_t piece = 256;
    HWY_ALIGN int32_t whole[piece];
    while (!(uniform & 1) && i + lanes <= n) {
      const int64_t count = std::min(piece, n - i) / lanes * lanes;
      for (int64_t k = 0; k < count; k += lanes) {
        const auto x = hn::LoadU(d, a + i + k);
        const auto inside = hn::Min(hn::Max(hn::IfThenElseZero(hn::Eq(x, x), x), lo), hi);
        hn::StoreU(hn::DemoteTo(di, inside), di, sizeof(T) == 4 ? reinterpret_cast<int32_t*>(o) + i + k : whole + k);
      }
      for (int64_t k = 0; sizeof(T) < 4 && k < count; ++k) o[i + k] = static_cast<T>(whole[k]);
      i += count;
    }
  }
  for (; i < n; ++i) o[i] = convert_element<T>(a[uniform & 1 ? 0 : i]);
}

// f64 to u32: whole numbers below 2^52 are in the last bits once 2^52 is added.
inline void f64_to_u32(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const double*>(in[0]);
  auto* o = static_cast<uint32_t*>(out);
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const hn::ScalableTag<double> d;
    const hn::Rebind<uint64_t, decltype(d)> wide;
    const hn::Rebind<uint32_t, decltype(d)> narrow;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; !(uniform & 1) && i + lanes <= n; i += lanes) {
      const auto x = hn::LoadU(d, a + i);
      const auto positive = hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), x);  // 0 for NaN
      const auto inside = hn::Min(positive, hn::Set(d, static_cast<double>(std::numeric_limits<uint32_t>::max())));
      const auto whole = hn::BitCast(wide, hn::Add(hn::Trunc(inside), hn::Set(d, 0x1p52)));
      hn::StoreU(hn::TruncateTo(narrow, whole), narrow, o + i);
    }
  }
  for (; i < n; ++i) o[i] = convert_element<uint32_t>(a[uniform & 1 ? 0 : i]);
}

// f32 to 64 bits: by way of i32 where a vector fits, which numbers mostly do, else element by element. (10^6 numbers
// took 1000 us element by element, with what conversions do beyond the ends.)
template <class T>
void f32_to_wide(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const float*>(in[0]);
  auto* o = static_cast<T*>(out);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kTarget.conversions) {
    const hn::ScalableTag<float> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::ScalableTag<T> wide;
    const hn::Half<hn::Repartition<std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>, decltype(d)>> half;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    for (; !(uniform & 1) && i + lanes <= n; i += lanes) {
      auto x = hn::LoadU(d, a + i);
      if constexpr (std::is_unsigned_v<T>) x = hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), x);
      if (HWY_LIKELY(hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, 0x1p31f))))) {
        const auto whole = hn::BitCast(hn::Twice<decltype(half)>(), hn::ConvertTo(di, x));
        hn::StoreU(hn::PromoteTo(wide, hn::LowerHalf(half, whole)), wide, o + i);
        hn::StoreU(hn::PromoteTo(wide, hn::UpperHalf(half, whole)), wide, o + i + lanes / 2);
      } else {
        for (int64_t k = i; k < i + lanes; ++k) o[k] = convert_element<T>(a[k]);
      }
    }
  }
#endif
  for (; i < n; ++i) o[i] = convert_element<T>(a[uniform & 1 ? 0 : i]);
}

// f64 to 64 bits: whole numbers below 2^51 are in the last bits once 1.5 * 2^52 is added. Those beyond, which are few,
// and NaN element by element.
template <class T>
void f64_to_wide(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const double*>(in[0]);
  auto* o = static_cast<T*>(out);
  int64_t i = 0;
  if constexpr (kTarget.conversions) {
    const hn::ScalableTag<double> d;
    const hn::Rebind<T, decltype(d)> wide;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto magic = hn::Set(d, 0x1.8p52);
    for (; !(uniform & 1) && i + lanes <= n; i += lanes) {
      auto x = hn::LoadU(d, a + i);
      if constexpr (std::is_unsigned_v<T>) x = hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), x);
      if (HWY_LIKELY(hn::AllTrue(d, hn::Lt(hn::Abs(x), hn::Set(d, 0x1p51))))) {
        const auto whole = hn::BitCast(wide, hn::Add(hn::Trunc(x), magic));
        hn::StoreU(hn::Sub(whole, hn::BitCast(wide, magic)), wide, o + i);
      } else {
        for (int64_t k = i; k < i + lanes; ++k) o[k] = convert_element<T>(a[k]);
      }
    }
  }
  for (; i < n; ++i) o[i] = convert_element<T>(a[uniform & 1 ? 0 : i]);
}
}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
