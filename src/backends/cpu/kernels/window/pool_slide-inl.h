// Rows of pooling's windows, combined for several windows at once. Included once per instruction set.
#if defined(CAMSHAFT_CPU_POOL_SLIDE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_POOL_SLIDE_INL_H
#undef CAMSHAFT_CPU_POOL_SLIDE_INL_H
#else
#define CAMSHAFT_CPU_POOL_SLIDE_INL_H
#endif

#include <cstdint>

#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/window/pool.h"
#include "backends/cpu/kernels/window/pool_combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using SlideTag = hn::ScalableTag<float>;
constexpr auto slide_lanes = static_cast<int64_t>(HWY_LANES(float));

// The rows of `lines` windows of K, combined, that lie S apart: those that they share are read once. NV vectors of
// columns, `count` in the last.
template <bool kAverage, int K, int S, int NV>
HWY_INLINE void slide_vectors(const float* top, int64_t row_step, int64_t lines, int64_t count, float* to,
                              int64_t pitch) {
  const SlideTag d;
  const auto neutral = hn::Set(d, pool_neutral<kAverage>());
  const auto mask = hn::FirstN(d, static_cast<size_t>(count));
  hn::Vec<SlideTag> seen[K][NV];
  const auto read = [&](hn::Vec<SlideTag>(&row)[NV]) HWY_ATTR {
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v)  // beside the neutral element: a NaN there would not be passed over
      row[v] = combine<kAverage>(
          neutral, v + 1 < NV ? hn::LoadU(d, top + v * slide_lanes) : masked_load(mask, d, top + v * slide_lanes));
    top += row_step;
  };
#pragma GCC unroll 8
  for (int r = 0; r < K - S; ++r) read(seen[r]);
  for (int64_t l = 0; l < lines; ++l, to += pitch) {
#pragma GCC unroll 8
    for (int r = K - S; r < K; ++r) read(seen[r]);
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      auto sum = seen[0][v];
#pragma GCC unroll 8
      for (int r = 1; r < K; ++r) sum = combine<kAverage>(sum, seen[r][v]);
      hn::StoreU(v + 1 < NV ? sum : hn::IfThenElse(mask, sum, neutral), d, to + v * slide_lanes);
#pragma GCC unroll 8
      for (int r = 0; r < K - S; ++r) seen[r][v] = seen[r + S][v];
    }
  }
}

template <bool kAverage, int K, int S>
void slide_rows(const float* top, int64_t row_step, int64_t lines, int64_t count, float* to, int64_t pitch) {
  for (; count > 2 * slide_lanes; count -= 2 * slide_lanes, top += 2 * slide_lanes, to += 2 * slide_lanes)
    slide_vectors<kAverage, K, S, 2>(top, row_step, lines, slide_lanes, to, pitch);
  if (count > slide_lanes)
    slide_vectors<kAverage, K, S, 2>(top, row_step, lines, count - slide_lanes, to, pitch);
  else
    slide_vectors<kAverage, K, S, 1>(top, row_step, lines, count, to, pitch);
}

// The function for windows of so many rows, or none.
using SlideRows = void (*)(const float*, int64_t, int64_t, int64_t, float*, int64_t);
template <bool kAverage>
SlideRows slide_rows_of(const PoolAxis& height) {
  constexpr SlideRows by_one[] = {slide_rows<kAverage, 2, 1>, slide_rows<kAverage, 3, 1>, slide_rows<kAverage, 4, 1>,
                                  slide_rows<kAverage, 5, 1>, slide_rows<kAverage, 6, 1>, slide_rows<kAverage, 7, 1>};
  constexpr SlideRows by_two[] = {slide_rows<kAverage, 3, 2>, slide_rows<kAverage, 4, 2>, slide_rows<kAverage, 5, 2>,
                                  slide_rows<kAverage, 6, 2>, slide_rows<kAverage, 7, 2>};
  if (height.dilation != 1 || height.kernel > 7) return nullptr;
  if (height.stride == 1 && height.kernel >= 2) return by_one[height.kernel - 2];
  return height.stride == 2 && height.kernel >= 3 ? by_two[height.kernel - 3] : nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
