#include "backends/cpu/kernels/window/byte_pool.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_window.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/byte_pool.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// The windows' taps of one pixel that lie inside.
struct Taps {
  int64_t planes, rows, columns;
  int64_t plane_step, row_step, column_step;
};

// The maximum over all taps of one vector of channels.
template <class D>
HWY_INLINE hn::Vec<D> window_maximum(D d, const hn::TFromD<D>* first, const Taps& taps) {
  auto most = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::lowest());
  for (int64_t p = 0; p < taps.planes; ++p)
    for (int64_t r = 0; r < taps.rows; ++r) {
      const auto* at = first + p * taps.plane_step + r * taps.row_step;
      for (int64_t c = 0; c < taps.columns; ++c, at += taps.column_step) most = hn::Max(most, hn::LoadU(d, at));
    }
  return most;
}

template <class T>
void pixel_maxima(const T* first, const Taps& taps, int64_t channels, T* out) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) hn::StoreU(window_maximum(d, first + c, taps), d, out + c);
  // A last vector that overlaps the one before.
  if (c < channels && channels >= lanes) {
    c = channels - lanes;
    return hn::StoreU(window_maximum(d, first + c, taps), d, out + c);
  }
  for (; c < channels; ++c) hn::StoreU(window_maximum(one, first + c, taps), one, out + c);
}

// Lines are [batch, out depth, out height].
template <class T>
void pool_lines(const SpatialPool& p, int64_t begin, int64_t end, const T* in, T* out) {
  const int64_t in_step = p.in_pixel_stride ? p.in_pixel_stride : p.channels;
  const int64_t out_step = p.out_pixel_stride ? p.out_pixel_stride : p.channels;
  const int64_t row = p.width.in * in_step, plane = p.height.in * row;
  Taps taps{0, 0, 0, p.depth.dilation * plane, p.height.dilation * row, p.width.dilation * in_step};
  for (int64_t line = begin; line < end; ++line) {
    const Window z = window_at(p.depth, line / p.height.out % p.depth.out, false);
    const Window y = window_at(p.height, line % p.height.out, false);
    const T* image = in + line / (p.depth.out * p.height.out) * p.depth.in * plane;
    taps.planes = z.counted;
    taps.rows = y.counted;
    for (int64_t i = 0; i < p.width.out; ++i) {
      const Window x = window_at(p.width, i, false);
      taps.columns = x.counted;
      const T* first = image + (z.start + z.first * p.depth.dilation) * plane +
                       (y.start + y.first * p.height.dilation) * row + (x.start + x.first * p.width.dilation) * in_step;
      pixel_maxima(first, taps, p.channels, out + (line * p.width.out + i) * out_step);
    }
  }
}

void signed_lines(const SpatialPool& p, int64_t begin, int64_t end, const void* in, void* out) {
  pool_lines(p, begin, end, static_cast<const int8_t*>(in), static_cast<int8_t*>(out));
}
void unsigned_lines(const SpatialPool& p, int64_t begin, int64_t end, const void* in, void* out) {
  pool_lines(p, begin, end, static_cast<const uint8_t*>(in), static_cast<uint8_t*>(out));
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(signed_lines);
HWY_EXPORT(unsigned_lines);

void byte_max_pool(const SpatialPool& problem, bool is_signed, const void* in, void* out, ThreadPool& pool) {
  if (problem.channels == 0 || problem.width.out == 0) return;
  const int64_t taps = problem.depth.kernel * problem.height.kernel * problem.width.kernel;
  const int64_t line = std::max<int64_t>(1, problem.width.out * problem.channels * taps);
  for_pieces(pool, problem.batch * problem.depth.out * problem.height.out, (int64_t{1} << 18) / line + 1,
             [&](int64_t begin, int64_t end) {
               if (is_signed) {
                 HWY_DYNAMIC_DISPATCH(signed_lines)(problem, begin, end, in, out);
               } else {
                 HWY_DYNAMIC_DISPATCH(unsigned_lines)(problem, begin, end, in, out);
               }
             });
}

}  // namespace camshaft::cpu
#endif
