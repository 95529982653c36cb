// Mean and deviation of a row of f32, for the normalisations. Included once per instruction set.
#if defined(CAMSHAFT_CPU_MOMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_MOMENTS_INL_H
#undef CAMSHAFT_CPU_MOMENTS_INL_H
#else
#define CAMSHAFT_CPU_MOMENTS_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/reduce/row_reduce-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// So many elements are added in one vector's lanes, and blocks of them in double.
inline constexpr int64_t kShortRow = 1024;

// Lane by lane, the sums of x - middle and of its squares.
struct Deviations {
  Vec sum, squares;
};

HWY_INLINE Deviations deviations(const float* x, int64_t n, Vec middle) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Of every second vector: an addition takes as long as several loads.
  Deviations even{hn::Zero(d), hn::Zero(d)}, odd = even;
  const auto add = [](Deviations& to, Vec off) HWY_ATTR {
    to.sum = hn::Add(to.sum, off);
    to.squares = hn::MulAdd(off, off, to.squares);
  };
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    add(even, hn::Sub(hn::LoadU(d, x + i), middle));
    add(odd, hn::Sub(hn::LoadU(d, x + i + lanes), middle));
  }
  if (i + lanes <= n) {
    add(even, hn::Sub(hn::LoadU(d, x + i), middle));
    i += lanes;
  }
  if (i < n) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
    add(odd, hn::IfThenElseZero(mask, hn::Sub(masked_load(mask, d, x + i), middle)));
  }
  return {hn::Add(even.sum, odd.sum), hn::Add(even.squares, odd.squares)};
}

// y = (x - middle) * factor + addend. The middle is the mean as f32 has it, which at a mean of 1000 and a deviation of
// 1 would be off by 3e-5; what it misses is in the addend.
struct Moments {
  float middle, factor, addend;
  float missed;  // the mean - middle
};

// From the sums of x - middle and of its squares.
HWY_INLINE Moments moments_of(float middle, double sum, double squares, int64_t n, float epsilon) {
  const double missed = sum / static_cast<double>(n), variance = squares / static_cast<double>(n) - missed * missed;
  const double factor = 1 / std::sqrt((variance < 0 ? 0 : variance) + epsilon);  // NaN stays
  return {middle, static_cast<float>(factor), static_cast<float>(-missed * factor), static_cast<float>(missed)};
}

// The middle is the mean of a row's beginning. Where that is not near the row's mean, the deviation is large for it: of
// n elements the first h, whose mean is off by m, give a variance of at least h / n * m^2, so that subtracting m^2
// loses at most log2(n / h) of its bits: 6 in the worst row, none in an ordinary one.
HWY_INLINE Moments moments(const float* x, int64_t n, float epsilon) {
  const int64_t head = std::min(n, std::max(kShortRow, n / 64));
  const auto middle = static_cast<float>(row_sum(x, head, 0, Plain()) / static_cast<double>(head));
  double sum = 0, squares = 0;
  for (int64_t begin = 0; begin < n; begin += kShortRow) {
    const Deviations d = deviations(x + begin, std::min(kShortRow, n - begin), hn::Set(Tag(), middle));
    sum += hn::GetLane(hn::SumOfLanes(Tag(), d.sum));
    squares += hn::GetLane(hn::SumOfLanes(Tag(), d.squares));
  }
  return moments_of(middle, sum, squares, n, epsilon);
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
