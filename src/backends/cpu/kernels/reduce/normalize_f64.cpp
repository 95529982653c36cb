#include "backends/cpu/kernels/reduce/normalize_f64.h"

#include <cmath>

#include "backends/cpu/kernels/targets.h"
#include "base/divide_up.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/reduce/normalize_f64.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<double>;
using Vec = hn::Vec<Tag>;

// Additions take four cycles, two begin in each.
constexpr int kSums = 8;

// The sum of function(x[i]), i < n.
template <class Function>
HWY_INLINE double sum_of(const double* x, int64_t n, Function function) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  Vec sums[kSums];
#pragma GCC unroll 8
  for (auto& sum : sums) sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + kSums * lanes <= n; i += kSums * lanes) {
#pragma GCC unroll 8
    for (int s = 0; s < kSums; ++s) sums[s] = hn::Add(sums[s], function(hn::LoadU(d, x + i + s * lanes)));
  }
  for (; i + lanes <= n; i += lanes) sums[0] = hn::Add(sums[0], function(hn::LoadU(d, x + i)));
  if (i < n) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
    sums[1] = hn::Add(sums[1], hn::IfThenElseZero(mask, function(masked_load(mask, d, x + i))));
  }
#pragma GCC unroll 3
  for (int half = kSums / 2; half > 0; half /= 2)
    for (int s = 0; s < half; ++s) sums[s] = hn::Add(sums[s], sums[s + half]);
  return hn::GetLane(hn::SumOfLanes(d, sums[0]));
}

// to = (from - mean) * factor * scale + bias
HWY_INLINE void apply_to_row(const double* from, int64_t n, double mean, double factor, const double* scale,
                             const double* bias, double* to) {
  const Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Vec middle = hn::Set(d, mean), factors = hn::Set(d, factor);
  const auto finish = [&](const auto& load) HWY_ATTR {
    const Vec v = hn::Mul(hn::Sub(load(from), middle), factors);
    if (scale && bias) return hn::MulAdd(v, load(scale), load(bias));
    if (scale) return hn::Mul(v, load(scale));
    return bias ? hn::Add(v, load(bias)) : v;
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(finish([&](const double* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, to + i);
  if (i == n) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(n - i));
  masked_store(finish([&](const double* p) HWY_ATTR { return masked_load(mask, d, p + i); }), mask, d, to + i);
}

void norm_rows(const NormF64& norm, int64_t begin, int64_t end, const double* x, const double* scale,
               const double* bias, double* y) {
  const Tag d;
  const int64_t n = norm.length;
  const auto count = static_cast<double>(n);
  for (int64_t r = begin; r < end; ++r) {
    const double* from = x + r * n;
    const double mean = norm.centred ? sum_of(from, n, [](Vec v) HWY_ATTR { return v; }) / count : 0;
    const Vec middle = hn::Set(d, mean);
    const double square = sum_of(from, n,
                                 [&](Vec v) HWY_ATTR {
                                   const Vec distance = hn::Sub(v, middle);
                                   return hn::Mul(distance, distance);
                                 }) /
                          count;
    const double bounded = square < norm.least ? norm.least : square;  // NaN stays
    apply_to_row(from, n, mean, 1 / std::sqrt(bounded + norm.epsilon), scale, bias, y + r * n);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(norm_rows);

void NormF64::run(ThreadPool& pool, const double* x, const double* scale, const double* bias, double* y) const {
  if (rows == 0 || length == 0) return;
  constexpr int64_t least_elements = 8 * 1024;  // below which a thread of its own does not pay
  const auto kernel = HWY_DYNAMIC_DISPATCH(norm_rows);
  for_pieces(pool, rows, divide_up(least_elements, length),
             [&](int64_t begin, int64_t end) { kernel(*this, begin, end, x, scale, bias, y); });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
