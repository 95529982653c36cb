// Reductions of one row of consecutive f32, included once per SIMD target after highway.h. Shared by the reductions,
// softmax and the normalisations.
//
// Sums run in four vectors (the latency of an addition is four cycles) over blocks of 1024 elements, and the blocks are
// added in double: the error stays within a few roundings whatever the length.

#if defined(CAMSHAFT_CPU_KERNELS_ROW_REDUCE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_KERNELS_ROW_REDUCE_INL_H_
#undef CAMSHAFT_CPU_KERNELS_ROW_REDUCE_INL_H_
#else
#define CAMSHAFT_CPU_KERNELS_ROW_REDUCE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/pointwise/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What is done to each element before it is added.
struct Plain {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return x;
  }
};
struct Squared {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return hn::Mul(x, x);
  }
};
struct Magnitude {
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return hn::Abs(x);
  }
};

/// Sum of f(x[i] - shift), i < n.
template <class Function>
HWY_NOINLINE double row_sum(const float* x, int64_t n, float shift, Function function) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto offset = hn::Set(d, shift);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += 1024) {
    const int64_t end = std::min(n, begin + 1024);
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      s0 = hn::Add(s0, function(hn::Sub(hn::LoadU(d, x + i), offset)));
      s1 = hn::Add(s1, function(hn::Sub(hn::LoadU(d, x + i + lanes), offset)));
      s2 = hn::Add(s2, function(hn::Sub(hn::LoadU(d, x + i + 2 * lanes), offset)));
      s3 = hn::Add(s3, function(hn::Sub(hn::LoadU(d, x + i + 3 * lanes), offset)));
    }
    for (; i + lanes <= end; i += lanes) s0 = hn::Add(s0, function(hn::Sub(hn::LoadU(d, x + i), offset)));
    if (i < end) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(end - i));
      s1 = hn::Add(s1, hn::IfThenElseZero(mask, function(hn::Sub(masked_load(mask, d, x + i), offset))));
    }
    total += hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  }
  return total;
}

/// The largest element; -infinity of none. NaN only where told: softmax meets it again in its sum.
template <bool kLargest, bool kKeepNan, class T>
HWY_NOINLINE T row_extreme(const T* x, int64_t n) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const T infinity = std::numeric_limits<T>::infinity();
  auto b0 = hn::Set(d, kLargest ? -infinity : infinity), b1 = b0;
  auto nans = hn::Zero(d);  // becomes NaN in a lane that meets one, by addition to itself
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto v0 = hn::LoadU(d, x + i), v1 = hn::LoadU(d, x + i + lanes);
    b0 = kLargest ? max_or_second(v0, b0) : min_or_second(v0, b0);
    b1 = kLargest ? max_or_second(v1, b1) : min_or_second(v1, b1);
    if (kKeepNan) {
      nans = hn::IfThenElse(hn::IsNaN(v0), v0, nans);
      nans = hn::IfThenElse(hn::IsNaN(v1), v1, nans);
    }
  }
  for (; i < n; i += lanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - i)));
    const auto v = hn::IfThenElse(mask, masked_load(mask, d, x + i), b0);
    b0 = kLargest ? max_or_second(v, b0) : min_or_second(v, b0);
    if (kKeepNan) nans = hn::IfThenElse(hn::IsNaN(v), v, nans);
  }
  if (kKeepNan && !hn::AllFalse(d, hn::IsNaN(nans))) return std::numeric_limits<T>::quiet_NaN();
  return hn::GetLane(kLargest ? hn::MaxOfLanes(d, hn::Max(b0, b1)) : hn::MinOfLanes(d, hn::Min(b0, b1)));
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
