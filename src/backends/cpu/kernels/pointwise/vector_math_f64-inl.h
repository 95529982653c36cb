// The exponential of f64, as vector_math-inl.h has it of f32. Included once per SIMD target, after highway.h.
//
// At most 1 unit in the last place off the true result. NaN gives NaN, which Highway's makes 0. The coefficients were
// interpolated for this file at Chebyshev's points, to 1.6e-17 of the result.

#if defined(CAMSHAFT_CPU_KERNELS_VECTOR_MATH_F64_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_KERNELS_VECTOR_MATH_F64_INL_H_
#undef CAMSHAFT_CPU_KERNELS_VECTOR_MATH_F64_INL_H_
#else
#define CAMSHAFT_CPU_KERNELS_VECTOR_MATH_F64_INL_H_
#endif

#include "backends/cpu/kernels/pointwise/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Splits x = n ln 2 + r and returns the polynomial of r, as exp_reduced() does.
template <class D, class V, class VI>
HWY_INLINE V exp_reduced_f64(D d, V x, VI& exponent) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 6755399441055744.0);  // 1.5 * 2^52
  const V sum = hn::MulAdd(x, hn::Set(d, 1.4426950408889634), magic);
  exponent = hn::Sub(hn::BitCast(di, sum), hn::BitCast(di, magic));
  const V n = hn::Sub(sum, magic);
  // ln 2 in two parts; the first has 32 bits, so that n times it is exact with or without a fused multiply-add.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.6931471803691238), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.9082149292705877e-10), r);
  // Two halves beside each other: half as long a chain of multiply-adds.
  const V s = hn::Mul(r, r);
  V even = hn::MulAdd(s, hn::Set(d, 2.7620088445409746e-07), hn::Set(d, 2.4801521295954376e-05));
  V odd = hn::MulAdd(s, hn::Set(d, 2.510038549551032e-08), hn::Set(d, 2.7557268459997064e-06));
  even = hn::MulAdd(even, s, hn::Set(d, 0.0013888888917213717));
  odd = hn::MulAdd(odd, s, hn::Set(d, 0.00019841269863053618));
  even = hn::MulAdd(even, s, hn::Set(d, 0.04166666666662413));
  odd = hn::MulAdd(odd, s, hn::Set(d, 0.008333333333330062));
  even = hn::MulAdd(even, s, hn::Set(d, 0.5000000000000001));
  odd = hn::MulAdd(odd, s, hn::Set(d, 0.16666666666666669));
  return hn::Add(hn::MulAdd(hn::MulAdd(odd, r, even), s, r), hn::Set(d, 1.0));
}

template <class D, class VI>
HWY_INLINE hn::Vec<D> power_of_two_f64(D d, VI exponent) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(exponent, hn::Set(di, 1023))));
}

/// e^x for x <= 0 as softmax needs it: results below the smallest normal number are 0.
template <class D, class V>
HWY_INLINE V exp_nonpositive_f64(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V lowest = hn::Set(d, -708.39);
  const auto vanishes = hn::Lt(x, lowest);
  auto exponent = hn::Zero(di);
  const V p = exp_reduced_f64(d, max_or_second(lowest, x), exponent);
  return hn::IfThenZeroElse(vanishes, hn::Mul(p, power_of_two_f64(d, exponent)));
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
