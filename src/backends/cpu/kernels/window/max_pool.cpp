#include "backends/cpu/kernels/window/max_pool.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_flat.h"
#include "backends/cpu/kernels/window/pool_window.h"
#include "backends/cpu/kernels/with_type.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/max_pool.cpp"
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

template <class T>
constexpr T lowest() {
  return std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::lowest();
}

// NaN loses.
template <class V>
HWY_INLINE V larger(V tap, V most) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) return hn::IfThenElse(hn::Gt(tap, most), tap, most);
  return hn::Max(tap, most);
}

// The maximum over all taps of one vector of channels.
template <class D>
HWY_INLINE hn::Vec<D> window_maximum(D d, const hn::TFromD<D>* first, const Taps& taps) {
  auto most = hn::Set(d, lowest<hn::TFromD<D>>());
  for (int64_t p = 0; p < taps.planes; ++p)
    for (int64_t r = 0; r < taps.rows; ++r) {
      const auto* at = first + p * taps.plane_step + r * taps.row_step;
      for (int64_t c = 0; c < taps.columns; ++c, at += taps.column_step) most = larger(hn::LoadU(d, at), most);
    }
  return most;
}

// Channels that do not fill a vector are taken by halves of one, and so on.
template <class D>
HWY_INLINE void pixel_maxima(D d, const hn::TFromD<D>* first, const Taps& taps, int64_t channels, hn::TFromD<D>* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if constexpr (hn::MaxLanes(D()) > 1)
    if (channels < lanes) return pixel_maxima(hn::Half<D>(), first, taps, channels, out);
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) hn::StoreU(window_maximum(d, first + c, taps), d, out + c);
  // A last vector that overlaps the one before.
  if (c < channels) hn::StoreU(window_maximum(d, first + channels - lanes, taps), d, out + channels - lanes);
}

// Lines are [batch, out depth, out height].
template <class T>
void lines_of_pixels(const SpatialPool& p, int64_t begin, int64_t end, const T* in, T* out) {
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
      pixel_maxima(hn::ScalableTag<T>(), first, taps, p.channels, out + (line * p.width.out + i) * out_step);
    }
  }
}

constexpr int64_t most_outputs = 256;  // of a line, at once

// One tap of outputs that are `any_stride` elements apart. As a constant it lets the compiler make vectors.
template <int kStride, class T>
HWY_INLINE void add_tap(const T* HWY_RESTRICT in, int64_t any_stride, int64_t count, T* HWY_RESTRICT most) {
  const int64_t stride = kStride ? kStride : any_stride;
#pragma GCC ivdep
  for (int64_t x = 0; x < count; ++x) {
    const T tap = in[x * stride], before = most[x];
    most[x] = tap > before ? tap : before;
  }
}

// The taps of one row of the window.
template <class T>
HWY_INLINE void add_row(const ColumnTaps& taps, int64_t stride, const T* row, T* most) {
  taps.each([&](const ColumnTap& tap) HWY_ATTR {
    const auto add = stride == 1 ? add_tap<1, T> : stride == 2 ? add_tap<2, T> : add_tap<0, T>;
    add(row + tap.column, stride, tap.count, most + tap.first);
  });
}

// Lines are [batch, channels, out depth, out height].
template <class T>
void lines_of_planes(const SpatialPool& p, int64_t begin, int64_t end, const T* in, T* out) {
  for (int64_t x = 0; x < p.width.out; x += most_outputs) {
    const int64_t count = std::min(most_outputs, p.width.out - x);
    const ColumnTaps taps(p.width, x, count);
    for (int64_t line = begin; line < end; ++line) {
      const T* plane = in + line / (p.depth.out * p.height.out) * p.depth.in * p.height.in * p.width.in;
      const Window z = window_at(p.depth, line / p.height.out % p.depth.out, false);
      const Window y = window_at(p.height, line % p.height.out, false);
      T* most = out + line * p.width.out + x;
      std::fill_n(most, count, lowest<T>());
      for (int64_t s = z.first; s < z.past; ++s)
        for (int64_t r = y.first; r < y.past; ++r) {
          const int64_t row = (z.start + s * p.depth.dilation) * p.height.in + y.start + r * p.height.dilation;
          add_row(taps, p.width.stride, plane + row * p.width.in, most);
        }
    }
  }
}

void pool_lines(DType dtype, const SpatialPool& p, int64_t begin, int64_t end, const void* in, void* out) {
  with_type(dtype, "max pooling", [&]<class T>(T) HWY_ATTR {
    const auto* from = static_cast<const T*>(in);
    auto* to = static_cast<T*>(out);
    p.channels_last ? lines_of_pixels(p, begin, end, from, to) : lines_of_planes(p, begin, end, from, to);
  });
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(pool_lines);

void max_pool(const SpatialPool& problem, DType dtype, const void* in, void* out, ThreadPool& pool) {
  if (problem.channels == 0 || problem.width.out == 0) return;
  const int64_t taps = problem.depth.kernel * problem.height.kernel * problem.width.kernel;
  const int64_t channels = problem.channels_last ? problem.channels : 1;
  const int64_t line = std::max<int64_t>(1, problem.width.out * channels * taps * bit_width(dtype) / 8);
  const int64_t lines = problem.batch * (problem.channels / channels) * problem.depth.out * problem.height.out;
  const auto kernel = HWY_DYNAMIC_DISPATCH(pool_lines);
  const bool is_flat = can_pool_flat(problem, dtype);
  for_pieces(pool, lines, (int64_t{1} << 18) / line + 1, [&](int64_t begin, int64_t end) {
    if (is_flat) return pool_flat(problem, dtype, begin, end, in, out);
    kernel(dtype, problem, begin, end, in, out);
  });
}

}  // namespace camshaft::cpu
#endif
