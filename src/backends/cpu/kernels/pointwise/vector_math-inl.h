// Vector versions of the transcendental functions of f32 lanes. Included once per SIMD target: from a file that uses
// foreach_target.h, after highway.h.
//
// Largest errors over a sample of all f32 bit patterns, in units of the last place of the true result, which
// tests/backends/cpu/vector_math_test.cpp holds on every target: exp 1, log 2, log1p 3, tanh 5, sigmoid 2, sin and cos
// 3, erf 6. NaN gives NaN; infinities and the ends of the range give what libm gives.
//
// The coefficients were fitted for this file: least squares reweighted towards the largest relative error, which comes
// close to the minimax polynomial (exp) or rational (tanh, erf). At the ends of their ranges the rationals are 2e-7
// above 1, with fused multiply-adds or without, so that clamping to 1 makes what is beyond exactly 1: x * (1 + erf(x))
// is x or -0 there.

#if defined(CAMSHAFT_CPU_KERNELS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_KERNELS_VECTOR_MATH_INL_H_
#undef CAMSHAFT_CPU_KERNELS_VECTOR_MATH_INL_H_
#else
#define CAMSHAFT_CPU_KERNELS_VECTOR_MATH_INL_H_
#endif

#include <cmath>
#include <limits>

#include "backends/cpu/kernels/tile_traits-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The smaller and the larger, and b when either is NaN: what x86's instructions do, and Highway leaves open. Clamping
/// with the variable second keeps its NaN.
template <class V>
HWY_INLINE V min_or_second(V a, V b) {
  if constexpr (kTarget.second_if_nan) {
    return hn::Min(a, b);
  } else {
    return hn::IfThenElse(hn::Lt(a, b), a, b);
  }
}
template <class V>
HWY_INLINE V max_or_second(V a, V b) {
  if constexpr (kTarget.second_if_nan) {
    return hn::Max(a, b);
  } else {
    return hn::IfThenElse(hn::Gt(a, b), a, b);
  }
}

/// exp of U vectors already clamped so that 2^n below stays in the range of an int: the shared core.
/// Splits x = n ln 2 + r and returns the polynomial of r; n goes to `exponent`, and to `n` as a float. All steps side
/// by side, as in sigmoid_f32().
template <int U, class D, class V, class VI>
HWY_INLINE void exp_reduced(D d, const V (&x)[U], V (&p)[U], VI (&exponent)[U], V (&n)[U]) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits of the sum. Highway's NearestInt also guards
  // against overflow, and exp took 0.19 ns an element with it instead of 0.14.
  const V magic = hn::Set(d, 12582912.0f), one = hn::Set(d, 1.0f);
  V r[U];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) {
    const V sum = hn::MulAdd(x[u], hn::Set(d, 1.442695041f), magic);
    exponent[u] = hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, magic));
    n[u] = hn::Sub(sum, magic);
  }
  // ln 2 in two parts; the first has 15 bits, so that n times it is exact with or without a fused multiply-add.
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) r[u] = hn::NegMulAdd(n[u], hn::Set(d, 0.69314575195f), x[u]);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) r[u] = hn::NegMulAdd(n[u], hn::Set(d, 1.42860677e-06f), r[u]);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(hn::Set(d, 1.381454036e-03f), r[u], hn::Set(d, 8.368745190e-03f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], r[u], hn::Set(d, 4.166839078e-02f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], r[u], hn::Set(d, 1.666652040e-01f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], r[u], hn::Set(d, 4.999999343e-01f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], r[u], one);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) p[u] = hn::MulAdd(p[u], r[u], one);
}

template <class D, class VI>
HWY_INLINE hn::Vec<D> power_of_two(D d, VI exponent) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(di, 127))));
}

/// p times 2^n, a normal number, of what exp_reduced() gives. AVX-512 has an instruction for it.
template <class D, class V, class VI>
HWY_INLINE V scaled(D d, V p, VI exponent, [[maybe_unused]] V n) {
#if CAMSHAFT_TARGET_IS_AVX512
  if constexpr (hn::MaxLanes(D()) == 16) return times_power_of_two(p, n);
#endif
  return hn::Mul(p, power_of_two(d, exponent));
}

/// The same over the whole range: 10^5 exponentials took 16 us with the two factors where one instruction does.
template <class D, class V, class VI>
HWY_INLINE V scaled_anywhere(D d, V p, VI exponent, [[maybe_unused]] V n) {
#if CAMSHAFT_TARGET_IS_AVX512
  if constexpr (hn::MaxLanes(D()) == 16) return times_power_of_two(p, n);
#endif
  // Two factors: 2^n alone would leave the range of normal numbers below n = -126 and above 127.
  const auto half = hn::ShiftRight<1>(exponent);
  return hn::Mul(hn::Mul(p, power_of_two(d, half)), power_of_two(d, hn::Sub(exponent, half)));
}

/// p times 2^n, where n of some lanes is below -125. There the result's bits are its whole multiple of 2^-149: an Intel
/// core takes some 150 cycles for a product that is denormal, 3.6 ns an element where most are.
template <class D, class V, class VI>
HWY_INLINE V scaled_with_denormals(D d, V p, VI exponent, V n) {
  const hn::RebindToSigned<D> di;
  const V multiple = hn::Mul(p, power_of_two(d, hn::Add(exponent, hn::Set(di, 149))));
  const auto is_tiny = hn::Lt(n, hn::Set(d, -125.0f));
  const V others =
      scaled_anywhere(d, p, hn::IfThenZeroElse(hn::RebindMask(di, is_tiny), exponent), hn::IfThenZeroElse(is_tiny, n));
  return hn::IfThenElse(is_tiny, hn::BitCast(d, hn::NearestInt(multiple)), others);
}

/// e^x over the whole range, denormal results included. y may be x.
template <int U, class D, class V>
HWY_INLINE void exp_f32(D d, const V (&x)[U], V (&y)[U]) {
  hn::Vec<hn::RebindToSigned<D>> exponent[U];
  V n[U], p[U], limited[U];
  // Beyond these limits the result is 0 or infinity in any case.
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) limited[u] = max_or_second(hn::Set(d, -104.0f), min_or_second(hn::Set(d, 89.0f), x[u]));
  exp_reduced(d, limited, p, exponent, n);
  V least = n[0];
#pragma GCC unroll 8
  for (int u = 1; u < U; ++u) least = hn::Min(least, n[u]);
  if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Lt(least, hn::Set(d, -125.0f))))) {
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) y[u] = scaled_with_denormals(d, p[u], exponent[u], n[u]);
    return;
  }
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = scaled_anywhere(d, p[u], exponent[u], n[u]);
}

/// e^x for x <= 0 as softmax needs it: results below the smallest normal number are 0. y may be x.
template <int U, class D, class V>
HWY_INLINE void exp_nonpositive_f32(D d, const V (&x)[U], V (&y)[U]) {
  hn::Vec<hn::RebindToSigned<D>> exponent[U];
  hn::Mask<D> vanishes[U];
  V n[U], p[U], limited[U];
  const V lowest = hn::Set(d, -87.336f);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) vanishes[u] = hn::Lt(x[u], lowest), limited[u] = max_or_second(lowest, x[u]);
  exp_reduced(d, limited, p, exponent, n);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = hn::IfThenZeroElse(vanishes[u], scaled(d, p[u], exponent[u], n[u]));
}

template <class D, class V>
HWY_INLINE V exp_f32(D d, V x) {
  V one[1] = {x};
  exp_f32(d, one, one);
  return one[0];
}
template <class D, class V>
HWY_INLINE V exp_nonpositive_f32(D d, V x) {
  V one[1] = {x};
  exp_nonpositive_f32(d, one, one);
  return one[0];
}

/// 1 / (1 + e^-x) of U vectors, with e^-x = 2^n p(r) as in exp_reduced(), but with the signs turned into coefficients
/// and n into an exponent by one shift. At the lower clamp 2^n is infinite, and so the result 0; below -87.3 it is
/// denormal. All steps side by side: one vector after the other fills the scheduler with operations that wait. 10^5
/// numbers on a Zen 3 took 45 us by way of exp_reduced(), take 35 one vector at a time and 32 four side by side.
template <int U, class D, class V>
HWY_INLINE void sigmoid_f32(D d, const V (&x)[U], V (&y)[U]) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f + 127.0f), one = hn::Set(d, 1.0f);  // 1.5 * 2^23, and a float's bias
  V rounded[U], r[U];
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) r[u] = max_or_second(hn::Set(d, -89.0f), min_or_second(hn::Set(d, 88.0f), x[u]));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) rounded[u] = hn::NegMulAdd(r[u], hn::Set(d, 1.442695041f), magic);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) {
    const V n = hn::Sub(rounded[u], magic);
    r[u] = hn::MulAdd(n, hn::Set(d, 0.69314575195f), r[u]);
    r[u] = hn::MulAdd(n, hn::Set(d, 1.42860677e-06f), r[u]);
  }
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = hn::MulAdd(hn::Set(d, -1.381454036e-03f), r[u], hn::Set(d, 8.368745190e-03f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = hn::MulAdd(y[u], r[u], hn::Set(d, -4.166839078e-02f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = hn::MulAdd(y[u], r[u], hn::Set(d, 1.666652040e-01f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = hn::NegMulAdd(y[u], r[u], hn::Set(d, 4.999999343e-01f));
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = hn::MulSub(y[u], r[u], one);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = hn::MulAdd(y[u], r[u], one);
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) {
    const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, rounded[u])));
    y[u] = hn::MulAdd(power, y[u], one);
  }
#pragma GCC unroll 8
  for (int u = 0; u < U; ++u) y[u] = hn::Div(one, y[u]);
}

template <class D, class V>
HWY_INLINE V sigmoid_f32(D d, V x) {
  const V in[1] = {x};
  V out[1];
  sigmoid_f32(d, in, out);
  return out[0];
}

/// x P(x^2) / Q(x^2) on |x| < 9.02, the first argument whose tanh rounds to 1.
template <class D, class V>
HWY_INLINE V tanh_f32(D d, V x) {
  const V limit = hn::Set(d, 9.02f);
  const V y = max_or_second(hn::Neg(limit), min_or_second(limit, x));
  const V s = hn::Mul(y, y);
  V p = hn::Set(d, -1.22e-11f);
  p = hn::MulAdd(p, s, hn::Set(d, 3.058516367e-08f));
  p = hn::MulAdd(p, s, hn::Set(d, 2.800752112e-05f));
  p = hn::MulAdd(p, s, hn::Set(d, 3.868330927e-03f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.367991763e-01f));
  p = hn::MulAdd(p, s, hn::Set(d, 9.999999987e-01f));
  V q = hn::Set(d, 1.287370837e-06f);
  q = hn::MulAdd(q, s, hn::Set(d, 3.938636657e-04f));
  q = hn::MulAdd(q, s, hn::Set(d, 2.724585053e-02f));
  q = hn::MulAdd(q, s, hn::Set(d, 4.701324969e-01f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.0f));
  const V one = hn::Set(d, 1.0f);
  return max_or_second(hn::Neg(one), min_or_second(one, hn::Div(hn::Mul(p, y), q)));
}

/// x P(x^2) / Q(x^2) on |x| < 4; erf rounds to 1 from 3.93 on.
template <class D, class V>
HWY_INLINE V erf_f32(D d, V x) {
  const V limit = hn::Set(d, 4.0f);
  const V y = max_or_second(hn::Neg(limit), min_or_second(limit, x));
  const V s = hn::Mul(y, y);
  V p = hn::Set(d, 1.981533877e-08f);
  p = hn::MulAdd(p, s, hn::Set(d, -1.955359133e-06f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.424898485e-04f));
  p = hn::MulAdd(p, s, hn::Set(d, 3.736625380e-03f));
  p = hn::MulAdd(p, s, hn::Set(d, 5.068871146e-02f));
  p = hn::MulAdd(p, s, hn::Set(d, 2.008025301e-01f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.128379107e+00f));
  V q = hn::Set(d, 9.638676808e-04f);
  q = hn::MulAdd(q, s, hn::Set(d, 1.442659441e-02f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.153602549e-01f));
  q = hn::MulAdd(q, s, hn::Set(d, 5.112882180e-01f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.0f));
  const V one = hn::Set(d, 1.0f);
  return max_or_second(hn::Neg(one), min_or_second(one, hn::Div(hn::Mul(p, y), q)));
}

/// ln x; Highway's covers the positive finite numbers, denormals included.
template <class D, class V>
HWY_INLINE V log_f32(D d, V x) {
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto ordinary = hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, infinity));
  const V y = hn::Log(d, x);
  if (HWY_LIKELY(hn::AllTrue(d, ordinary))) return y;
  const V nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  const V special =
      hn::IfThenElse(hn::Eq(x, infinity), infinity, hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), nan));
  return hn::IfThenElse(ordinary, y, special);
}

/// ln(1 + x): the logarithm of the rounded sum u, plus the first-order effect of the rounding.
template <class D, class V>
HWY_INLINE V log1p_f32(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V u = hn::Add(one, x);
  const V rounding = hn::Sub(x, hn::Sub(u, one));
  const V corrected = hn::Add(log_f32(d, u), hn::Div(rounding, u));
  // Where u is infinite or zero the correction is not a number; where u is 1 the sum kept nothing of x.
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto plain = hn::Or(hn::Eq(u, infinity), hn::Eq(u, hn::Zero(d)));
  const V y = hn::IfThenElse(plain, log_f32(d, u), corrected);
  return hn::IfThenElse(hn::Eq(u, one), x, y);
}

/// Applies `scalar` to every lane: for arguments outside a vector function's range.
template <class D, class V>
HWY_NOINLINE V lane_by_lane(D d, V x, float (*scalar)(float)) {
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = scalar(lanes[i]);
  return hn::Load(d, lanes);
}

template <class D, class V>
HWY_INLINE V sin_f32(D d, V x) {
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, 39000.0f))))) return lane_by_lane(d, x, std::sin);
  return hn::Sin(d, x);
}

template <class D, class V>
HWY_INLINE V cos_f32(D d, V x) {
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, 39000.0f))))) return lane_by_lane(d, x, std::cos);
  return hn::Cos(d, x);
}

/// Highway's cover [-1, 1]; NaN beyond. (Its error is 2 units in the last place.)
template <class D, class V>
HWY_INLINE V asin_f32(D d, V x) {
  const auto outside = hn::Gt(hn::Abs(x), hn::Set(d, 1.0f));
  return hn::IfThenElse(outside, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), hn::Asin(d, x));
}
template <class D, class V>
HWY_INLINE V acos_f32(D d, V x) {
  const auto outside = hn::Gt(hn::Abs(x), hn::Set(d, 1.0f));
  return hn::IfThenElse(outside, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), hn::Acos(d, x));
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
