#include "backends/cpu/kernels/window/pool.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/product_shares.h"
#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_flat.h"
#include "backends/cpu/kernels/window/pool_narrow.h"
#include "backends/cpu/kernels/window/pool_planes.h"
#include "backends/cpu/kernels/window/pool_rows_first.h"
#include "backends/cpu/kernels/window/pool_window.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/pool.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/window/pool_combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

// The taps of a window: how many along each axis, and how far apart.
struct Taps {
  int64_t planes, rows, columns;
  int64_t plane_step, row_step, column_step;
};

HWY_INLINE hn::Vec<Tag> load_channels(size_t count, const float* from) {
  const Tag d;
  return count == HWY_LANES(float) ? hn::LoadU(d, from) : masked_load(hn::FirstN(d, count), d, from);
}

HWY_INLINE void store_channels(size_t count, hn::Vec<Tag> v, float* to) {
  const Tag d;
  count == HWY_LANES(float) ? hn::StoreU(v, d, to) : masked_store(v, hn::FirstN(d, count), d, to);
}

// K columns of the window: NV vectors of channels, `count` in the last.
template <bool kAverage, int K, int NV>
HWY_INLINE void pool_columns(const float* column, const Taps& taps, size_t count, hn::Vec<Tag> (&sum)[NV]) {
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) sum[v] = hn::Set(Tag(), pool_neutral<kAverage>());
  for (int64_t p = 0; p < taps.planes; ++p, column += taps.plane_step) {
    const float* from = column;
    for (int64_t r = 0; r < taps.rows; ++r, from += taps.row_step) {
#pragma GCC unroll 4
      for (int k = 0; k < K; ++k) {
        const float* at = from + k * taps.column_step;
#pragma GCC unroll 4
        for (int v = 0; v + 1 < NV; ++v) sum[v] = combine<kAverage>(sum[v], hn::LoadU(Tag(), at + v * lanes));
        sum[NV - 1] = combine<kAverage>(sum[NV - 1], load_channels(count, at + (NV - 1) * lanes));
      }
    }
  }
}

// All channels of a pixel.
template <bool kAverage>
HWY_INLINE void pool_pixel(const float* first, const Taps& taps, float scale, int64_t channels, float* to) {
  const Tag d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < channels; c += lanes) {
    const auto count = static_cast<size_t>(std::min(lanes, channels - c));
    auto sum = hn::Set(d, pool_neutral<kAverage>());
    for (int64_t k = 0; k < taps.columns; ++k) {
      hn::Vec<Tag> column[1];
      pool_columns<kAverage, 1>(first + c + k * taps.column_step, taps, count, column);
      sum = combine<kAverage>(sum, column[0]);
    }
    store_channels(count, kAverage ? hn::Mul(sum, hn::Set(d, scale)) : sum, to + c);
  }
}

// `pixels` neighbours whose windows of K columns, S apart, lie inside the image: columns that two windows see are
// combined once (3x3 by 2: 6 loads for a result and not 9); where there are none, whole lines follow each other. NV
// vectors of channels at a time, `count` in the last: with one of four, each pass over the lines takes a cache line of
// every fourth.
template <bool kAverage, int K, int S, int NV>
HWY_NOINLINE void pool_sliding(const float* from, const Taps& taps, float scale, size_t count, int64_t pixels,
                               int64_t out_step, float* out) {
  const auto scales = hn::Set(Tag(), scale);
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  constexpr int kNew = K > S ? S : 1, kParts = K > S ? K : 1;  // parts of a window, and those that the next one lacks
  hn::Vec<Tag> seen[kParts][NV];
#pragma GCC unroll 8
  for (int k = 0; k < kParts - kNew; ++k, from += taps.column_step)
    pool_columns<kAverage, 1>(from, taps, count, seen[k]);
  for (int64_t i = 0; i < pixels; ++i, out += out_step) {
    if constexpr (K > S) {
#pragma GCC unroll 8
      for (int k = K - S; k < K; ++k, from += taps.column_step) pool_columns<kAverage, 1>(from, taps, count, seen[k]);
    } else {
      pool_columns<kAverage, K>(from, taps, count, seen[0]);
      from += S * taps.column_step;
    }
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) {
      auto sum = seen[0][v];
#pragma GCC unroll 8
      for (int k = 1; k < kParts; ++k) sum = combine<kAverage>(sum, seen[k][v]);
      if (kAverage) sum = hn::Mul(sum, scales);
      if (v + 1 < NV)
        hn::StoreU(sum, Tag(), out + v * lanes);
      else
        store_channels(count, sum, out + v * lanes);
#pragma GCC unroll 8
      for (int k = 0; k < kParts - kNew; ++k) seen[k][v] = seen[k + kNew][v];
    }
  }
}

template <bool kAverage, int K, int S>
void slide(const float* first, const Taps& taps, float scale, int64_t channels, int64_t pixels, int64_t out_step,
           float* to) {
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  constexpr int64_t most = K > 3 ? 2 : kTiles.pool_vectors;
  for (int64_t c = 0; c < channels;) {
    const int64_t left = (channels - c + lanes - 1) / lanes;
    const int64_t vectors = most == 4 && left >= 4 ? 4 : std::min<int64_t>(left, 2);
    const auto count = static_cast<size_t>(std::min(lanes, channels - c - (vectors - 1) * lanes));
    if constexpr (most == 4) {
      if (vectors == 4) pool_sliding<kAverage, K, S, 4>(first + c, taps, scale, count, pixels, out_step, to + c);
    }
    if (vectors == 2) pool_sliding<kAverage, K, S, 2>(first + c, taps, scale, count, pixels, out_step, to + c);
    if (vectors == 1) pool_sliding<kAverage, K, S, 1>(first + c, taps, scale, count, pixels, out_step, to + c);
    c += vectors * lanes;
  }
}

// Lines are [batch, out depth, out height].
template <bool kAverage>
void pixels_last(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  const PoolAxis& w = p.width;
  const int64_t in_step = p.in_pixel_stride ? p.in_pixel_stride : p.channels;
  const int64_t out_step = p.out_pixel_stride ? p.out_pixel_stride : p.channels;
  const int64_t row = w.in * in_step, plane = p.height.in * row;
  Taps taps{0, 0, 0, p.depth.dilation * plane, p.height.dilation * row, w.dilation * in_step};
  const IndexRange whole = whole_windows(w);
  const auto scale_of = [](int64_t counted) { return counted > 0 ? 1.0f / static_cast<float>(counted) : 0.0f; };
  for (int64_t line = begin; line < end; ++line) {
    const int64_t b = line / (p.depth.out * p.height.out);
    const Window z = window_at(p.depth, line / p.height.out % p.depth.out, p.count_include_pad);
    const Window y = window_at(p.height, line % p.height.out, p.count_include_pad);
    const float* top = in + b * p.depth.in * plane + (z.start + z.first * p.depth.dilation) * plane +
                       (y.start + y.first * p.height.dilation) * row;
    taps.planes = z.past - z.first;
    taps.rows = y.past - y.first;
    float* to = out + line * w.out * out_step;
    const auto at_edge = [&](int64_t i) HWY_ATTR {
      const Window x = window_at(w, i, p.count_include_pad);
      taps.columns = x.past - x.first;
      pool_pixel<kAverage>(top + (x.start + x.first * w.dilation) * in_step, taps,
                           scale_of(z.counted * y.counted * x.counted), p.channels, to + i * out_step);
    };
    for (int64_t i = 0; i < whole.first; ++i) at_edge(i);
    const float* first = top + (whole.first * w.stride - w.pad_before) * in_step;
    const float scale = scale_of(z.counted * y.counted * w.kernel);
    const auto sliding = [&](auto kernel) HWY_ATTR {
      // It reads what two windows share before the first of them.
      if (whole.past > whole.first)
        kernel(first, taps, scale, p.channels, whole.past - whole.first, out_step, to + whole.first * out_step);
    };
    if (w.dilation == 1 && w.kernel == 3 && w.stride == 2) {
      sliding(slide<kAverage, 3, 2>);
    } else if (w.dilation == 1 && w.kernel == 3 && w.stride == 1) {
      sliding(slide<kAverage, 3, 1>);
    } else if (w.dilation == 1 && w.kernel == 2 && w.stride == 2) {
      sliding(slide<kAverage, 2, 2>);
    } else if (w.dilation == 1 && w.kernel == 5 && w.stride == 1) {
      sliding(slide<kAverage, 5, 1>);
    } else {
      taps.columns = w.kernel;
      for (int64_t i = whole.first; i < whole.past; ++i, first += w.stride * in_step)
        pool_pixel<kAverage>(first, taps, scale, p.channels, to + i * out_step);
    }
    for (int64_t i = whole.past; i < w.out; ++i) at_edge(i);
  }
}

// Windows wider than what combined rows are kept in.
template <bool kAverage>
void lines_by_pixels(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  SpatialPool pixels = p;
  pixels.channels = 1;
  pixels_last<kAverage>(pixels, begin, end, in, out);
}

void pool_lines(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  if (p.channels_last) {
    p.average ? pixels_last<true>(p, begin, end, in, out) : pixels_last<false>(p, begin, end, in, out);
  } else {
    p.average ? lines_by_pixels<true>(p, begin, end, in, out) : lines_by_pixels<false>(p, begin, end, in, out);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(pool_lines);

void SpatialPool::run_lines(int64_t begin, int64_t end, const float* in, float* out) const {
  if (can_pool_flat(*this, DType::f32)) return pool_flat(*this, DType::f32, begin, end, in, out);
  if (pool_narrow(*this, begin, end, in, out)) return;
  // By steps over rows nothing is joined, and the ends of lines take longer one by one than padding beside them.
  const bool joins_rows = height.stride == 1 || !can_pool_rows_first(*this);
  if (joins_rows && can_pool_planes(*this)) return pool_planes(*this, begin, end, in, out);
  if (can_pool_rows_first(*this)) return pool_rows_first(*this, begin, end, in, out);
  HWY_DYNAMIC_DISPATCH(pool_lines)(*this, begin, end, in, out);
}

namespace {

// Cancellable between lines.
void run_paced(const SpatialPool& problem, const RowChannelShare& own, const float* in, float* out) {
  const int64_t taps = problem.depth.kernel * problem.height.kernel * problem.width.kernel;
  const int64_t line = problem.width.out * (problem.channels_last ? problem.channels : 1) * taps;
  const int64_t count = std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(1, line));
  for (int64_t row = own.row0; row < own.row1; row += count) {
    cancellation_point();
    problem.run_lines(row, std::min(own.row1, row + count), in, out);
  }
}

}  // namespace

RowChannelShares SpatialPool::shares(int most) const {
  const int64_t lines = batch * depth.out * height.out * (channels_last ? 1 : channels);
  const int64_t taps = depth.kernel * height.kernel * width.kernel;
  const int64_t work = lines * width.out * (channels_last ? channels : 1) * taps;
  // Below so much a thread, waking it costs more than it saves.
  constexpr int64_t least_work = 32 * 1024;
  // A vector of channels a cycle; neighbours of a line take shuffles.
  const double cycles = static_cast<double>(work) / (channels_last ? 16 : 8);
  const int threads = useful_threads(cycles, static_cast<int>(std::clamp<int64_t>(work / least_work, 1, most)));
  // Lines of channels are not cut.
  if (!channels_last) return {lines, 1, 0, threads};
  const double overlap = window_overlap(height.kernel, height.dilation, width.stride, taps);
  return {lines, channels, overlap, threads};
}

void SpatialPool::run(ThreadPool& pool, const float* in, float* out) const {
  const RowChannelShares cut = shares(pool.size());
  pool.run(cut.threads(), [&](int thread) {
    const RowChannelShare own = cut.share(thread);
    if (own.is_empty() || width.out == 0) return;
    if (!channels_last) return run_paced(*this, own, in, out);
    SpatialPool part = *this;
    part.channels = own.channel1 - own.channel0;
    part.in_pixel_stride = in_pixel_stride ? in_pixel_stride : channels;
    part.out_pixel_stride = out_pixel_stride ? out_pixel_stride : channels;
    run_paced(part, own, in + own.channel0, out + own.channel0);
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
