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
    float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
    const hn::CappedTag<float, 1> one;
    for (; i < end; ++i) sum += hn::GetLane(function(hn::Set(one, x[i] - shift)));
    total += sum;
  }
  return total;
}

/// The largest element; -infinity of none. NaN only where told: softmax meets it again in its sum.
template <bool kLargest, bool kKeepNan>
HWY_NOINLINE float row_extreme(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float infinity = std::numeric_limits<float>::infinity();
  float best = kLargest ? -infinity : infinity;
  auto b0 = hn::Set(d, best), b1 = b0;
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
  float tail_nan = 0;
  HWY_ALIGN float lane[2][hn::MaxLanes(hn::ScalableTag<float>())];
  hn::Store(kLargest ? hn::Max(b0, b1) : hn::Min(b0, b1), d, lane[0]);
  hn::Store(nans, d, lane[1]);
  for (int64_t k = 0; k < lanes; ++k) {
    best = kLargest ? std::max(best, lane[0][k]) : std::min(best, lane[0][k]);
    if (kKeepNan && lane[1][k] != lane[1][k]) tail_nan = lane[1][k];
  }
  for (; i < n; ++i) {
    if (kKeepNan && x[i] != x[i]) tail_nan = x[i];
    best = kLargest ? (x[i] > best ? x[i] : best) : (x[i] < best ? x[i] : best);
  }
  return kKeepNan && tail_nan != tail_nan ? tail_nan : best;
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
