// Quotients and remainders of integers of 32 bits: see tile_kernels.h. The compiler's vectors of the plain loop took
// 144 us for 10^5 quotients on a Zen 3, the processor's own division 190; these take 22 to 50.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/tile_divide.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using F = ScalarFunction;

#if HWY_TARGET != HWY_SCALAR
using Floats = hn::ScalableTag<float>;
using Signed = hn::RebindToSigned<Floats>;
using Unsigned = hn::RebindToUnsigned<Floats>;
using Doubles = hn::Repartition<double, Floats>;
template <class T>
using Tag = hn::Rebind<T, Floats>;
template <class T>
using Vec = hn::Vec<Tag<T>>;

HWY_INLINE hn::Vec<Doubles> to_double(hn::Vec<hn::Half<Signed>> x) {
  return hn::PromoteTo(Doubles(), x);
}
HWY_INLINE hn::Vec<Doubles> to_double(hn::Vec<hn::Half<Unsigned>> x) {
  const hn::Half<Unsigned> d;
  const auto moved = hn::BitCast(hn::Half<Signed>(), hn::Xor(x, hn::Set(d, 0x80000000u)));
  return hn::Add(hn::PromoteTo(Doubles(), moved), hn::Set(Doubles(), 0x1p31));
}

// Towards zero; 0 where b is 0, which ONNX leaves undefined. The lowest number divided by -1 wraps. A quotient that is
// no whole number is 1/b away from one, and rounding moves it by less: by a/b 2^-24 in f32 where both are below 2^24,
// as they mostly are, by a/b 2^-53 in f64.
template <class T>
HWY_INLINE Vec<T> quotient(Vec<T> a, Vec<T> b) {
  const Tag<T> d;
  const Signed di;
  Vec<T> magnitudes = hn::Or(a, b);
  if constexpr (std::is_signed_v<T>) magnitudes = hn::Or(hn::Abs(a), hn::Abs(b));
  const auto high = hn::ShiftRight<24>(hn::BitCast(Unsigned(), magnitudes));
  Vec<T> q;
  if (HWY_LIKELY(hn::AllTrue(Unsigned(), hn::Eq(high, hn::Zero(Unsigned()))))) {
    const auto x = hn::ConvertTo(Floats(), hn::BitCast(di, a)), y = hn::ConvertTo(Floats(), hn::BitCast(di, b));
    q = hn::BitCast(d, hn::ConvertTo(di, hn::Div(x, y)));
  } else {
    const hn::Half<Tag<T>> half;
    const hn::Half<Signed> part;
    const auto low = hn::Div(to_double(hn::LowerHalf(half, a)), to_double(hn::LowerHalf(half, b)));
    const auto up = hn::Div(to_double(hn::UpperHalf(half, a)), to_double(hn::UpperHalf(half, b)));
    q = hn::BitCast(d, hn::Combine(di, hn::DemoteTo(part, up), hn::DemoteTo(part, low)));
    // Of the two quotients that i32 cannot hold.
    if constexpr (std::is_signed_v<T>) {
      q = hn::IfThenElse(hn::Eq(b, hn::Set(d, -1)), hn::Sub(hn::Zero(d), a), q);
    } else {
      q = hn::IfThenElse(hn::Eq(b, hn::Set(d, 1u)), a, q);
    }
  }
  return hn::IfThenZeroElse(hn::Eq(b, hn::Zero(d)), q);
}

template <F kFunction, class T>
HWY_INLINE Vec<T> result_of(Vec<T> a, Vec<T> b) {
  const Tag<T> d;
  const auto q = quotient<T>(a, b);
  if constexpr (kFunction == F::div) return q;
  const auto rest = hn::IfThenZeroElse(hn::Eq(b, hn::Zero(d)), hn::Sub(a, hn::Mul(q, b)));
  if constexpr (kFunction == F::fmod || !std::is_signed_v<T>) return rest;
  const auto turns = hn::And(hn::Lt(hn::Xor(rest, b), hn::Zero(d)), hn::Ne(rest, hn::Zero(d)));
  return hn::Add(rest, hn::IfThenElseZero(turns, b));
}

template <F kFunction, class T, bool kOneA, bool kOneB>
void loop(const T* a, const T* b, T* o, int64_t n) {
  const Tag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto one_a = hn::Set(d, *a), one_b = hn::Set(d, *b);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(result_of<kFunction, T>(kOneA ? one_a : hn::LoadU(d, a + i), kOneB ? one_b : hn::LoadU(d, b + i)), d,
               o + i);
  if (i == n) return;
  HWY_ALIGN T x[hn::MaxLanes(Tag<T>())] = {}, y[hn::MaxLanes(Tag<T>())] = {};
  const auto bytes = static_cast<size_t>(n - i) * sizeof(T);
  if (!kOneA) std::memcpy(x, a + i, bytes);
  if (!kOneB) std::memcpy(y, b + i, bytes);
  hn::Store(result_of<kFunction, T>(kOneA ? one_a : hn::Load(d, x), kOneB ? one_b : hn::Load(d, y)), d, x);
  std::memcpy(o + i, x, bytes);
}

template <F kFunction, class T>
void kernel(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
  auto* o = static_cast<T*>(out);
  switch (uniform & 3) {
    case 0:
      return loop<kFunction, T, false, false>(a, b, o, n);
    case 1:
      return loop<kFunction, T, true, false>(a, b, o, n);
    case 2:
      return loop<kFunction, T, false, true>(a, b, o, n);
    default:
      return loop<kFunction, T, true, true>(a, b, o, n);
  }
}

template <class T>
TileKernel kernel_of(F function) {
  if (function == F::div) return kernel<F::div, T>;
  if (function == F::mod) return kernel<F::mod, T>;
  if (function == F::fmod) return kernel<F::fmod, T>;
  return nullptr;
}
#endif

TileKernel division([[maybe_unused]] ScalarFunction function, [[maybe_unused]] DType lanes) {
#if HWY_TARGET != HWY_SCALAR
  if (!kTarget.conversions) return nullptr;
  if (lanes == DType::i32) return kernel_of<int32_t>(function);
  if (lanes == DType::u32) return kernel_of<uint32_t>(function);
#endif
  return nullptr;
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(division);

TileKernel find_division(ScalarFunction function, DType lanes) {
  return HWY_DYNAMIC_DISPATCH(division)(function, lanes);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
