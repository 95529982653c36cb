// Winograd's transform of weights, straight into the packed matrices.
#include <algorithm>

#include "backends/cpu/kernels/conv/winograd.h"
#include "backends/cpu/kernels/conv/winograd_factors.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/winograd_weights.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kTaps = WinogradFactors::kTaps, kMostPoints = WinogradFactors::kMostPoints, kColumns = 8;

template <class Sum>
HWY_INLINE void store_rounded(Sum sum, float* to) {
#if HWY_TARGET == HWY_SCALAR
  *to = static_cast<float>(hn::GetLane(sum));  // DemoteTo() makes infinities the largest number there
#else
  const hn::Rebind<float, hn::CappedTag<double, kColumns> > narrow;
  hn::StoreU(hn::DemoteTo(narrow, sum), narrow, to);
#endif
}

// One input channel of eight output channels, all points; `to` is the first point's place.
HWY_INLINE void transform_columns(const WinogradFactors& factors, int64_t points, const float (&taps)[kTaps][kColumns],
                                  float* to, int64_t point_step) {
  const hn::CappedTag<double, kColumns> d;
  const hn::Rebind<float, decltype(d)> narrow;
  for (int64_t c = 0; c < kColumns; c += static_cast<int64_t>(hn::Lanes(d))) {
    const auto tap = [&](int64_t t) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(narrow, taps[t] + c)); };
    const auto t0 = tap(0), t1 = tap(1), t2 = tap(2), t3 = tap(3), t4 = tap(4), t5 = tap(5), t6 = tap(6), t7 = tap(7),
               t8 = tap(8);
    for (int64_t point = 0; point < points; ++point) {
      const double* const by = factors.of[point];
      // Products and sums are rounded one by one, as instruction sets without fused ones do: weights that one machine
      // has packed are those of another.
      auto sum = hn::Add(hn::Zero(d), hn::Mul(hn::Set(d, by[0]), t0));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, by[1]), t1));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, by[2]), t2));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, by[3]), t3));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, by[4]), t4));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, by[5]), t5));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, by[6]), t6));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, by[7]), t7));
      sum = hn::Add(sum, hn::Mul(hn::Set(d, by[8]), t8));
      store_rounded(sum, to + point * point_step + c);
    }
  }
}

// A pass over the weights for each point would take six times as long: 45 MB, read sixteen times.
void pack_winograd_target(const WinogradWeights& w, const WinogradFactors& factors, const float* oihw, float* packed) {
  const int64_t points = w.points(), out_step = w.in_channels * kTaps;
  float taps[kTaps][kColumns], rest[kMostPoints][kColumns];
  for (int64_t p = 0; p < w.layout.panels(); ++p) {
    const int64_t stored = w.layout.columns(p), first = p * w.layout.width;
    for (int64_t i = 0; i < w.in_channels; ++i) {
      for (int64_t j = 0; j < stored; j += kColumns) {
        const int64_t filled = std::clamp<int64_t>(w.out_channels - first - j, 0, kColumns);
        for (int64_t c = 0; c < filled; ++c) {
          const float* const from = oihw + (first + j + c) * out_step + i * kTaps;
          for (int64_t t = 0; t < kTaps; ++t) taps[t][c] = from[t];
        }
        for (int64_t c = filled; c < kColumns; ++c)
          for (int64_t t = 0; t < kTaps; ++t) taps[t][c] = 0;
        float* const to = packed + w.layout.offset(p) + i * stored + j;
        if (stored - j >= kColumns) {
          transform_columns(factors, points, taps, to, w.matrix_stride());
          continue;
        }
        transform_columns(factors, points, taps, rest[0], kColumns);
        for (int64_t point = 0; point < points; ++point)
          std::copy(rest[point], rest[point] + stored - j, to + point * w.matrix_stride());
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(pack_winograd_target);

void pack_winograd_weights(const WinogradWeights& weights, const float* oihw, float* packed) {
  HWY_DYNAMIC_DISPATCH(pack_winograd_target)(weights, WinogradFactors(weights.tile), oihw, packed);
}

}  // namespace camshaft::cpu
#endif
