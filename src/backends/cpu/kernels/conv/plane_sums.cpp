#include "backends/cpu/kernels/conv/plane_sums.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/plane_sums.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));

// Each stream's sums, V vectors from x on of which the last one is that at `last`, within the bounds.
template <int N, int V>
HWY_INLINE void store_streams(const PlaneSums& b, const hn::Vec<Tag> (&sum)[N][V], int64_t x, int64_t last) {
  const Tag d;
  const auto lo = hn::Set(d, b.lo), hi = hn::Set(d, b.hi);
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
      hn::StoreU(b.clamp ? clamp_keeping_nan(sum[n][v], lo, hi) : sum[n][v], d,
                 b.streams + n * b.stream_step + (v + 1 < V ? x + v * lanes : last));
  }
}

// O output channels of V vectors of neighbours from x on; the last one is the one at `last`, which may overlap the one
// before. kOneTap: a loop over one tap takes as long as what is in it.
template <int O, int V, bool kOneTap>
HWY_NOINLINE void sums_of_tile(const PlaneSums& b, int64_t x, int64_t last) {
  const Tag d;
  hn::Vec<Tag> sum[O][V];
#pragma GCC unroll 4
  for (int o = 0; o < O; ++o) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[o][v] = b.bias ? hn::Set(d, b.bias[o]) : hn::Zero(d);
  }
  const float* HWY_RESTRICT w = b.weights;
  const auto add = [&](const float* HWY_RESTRICT from) HWY_ATTR {
    hn::Vec<Tag> a[V];
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) a[v] = hn::LoadU(d, v + 1 < V ? from + x + v * lanes : from + last);
#pragma GCC unroll 4
    for (int o = 0; o < O; ++o) {
      const auto factor = hn::Set(d, w[o]);
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[o][v] = hn::MulAdd(a[v], factor, sum[o][v]);
    }
    w += O;
  };
  for (int64_t l = 0; l < b.lines; ++l) {
    const float* plane = b.line[l];
    if (!plane) {
      w += b.channels * b.taps * O;
      continue;
    }
    plane += b.plane;
    if constexpr (kOneTap) {
      plane += b.offset[0];
      for (int64_t c = 0; c < b.channels; ++c, plane += b.pitch) add(plane);
    } else {
      for (int64_t c = 0; c < b.channels; ++c, plane += b.pitch)
        for (int64_t t = 0; t < b.taps; ++t) add(plane + b.offset[t]);
    }
  }
  store_streams(b, sum, x, last);
}

template <int O, int V>
void tile(const PlaneSums& b, int64_t x, int64_t last) {
  b.taps == 1 ? sums_of_tile<O, V, true>(b, x, last) : sums_of_tile<O, V, false>(b, x, last);
}

// What is left from x on, in one tile: V vectors or fewer.
template <int O, int V>
void last_tile(const PlaneSums& b, int64_t x) {
  if constexpr (V > 1) {
    if (b.count - x <= (V - 1) * lanes) return last_tile<O, V - 1>(b, x);
  }
  tile<O, V>(b, x, b.count - lanes);
}

template <int O>
void sums_of_row(const PlaneSums& b) {
  // As many sums as four channels have at least: fewer wait for each other. One vector behind others is taken with them
  // where registers suffice: alone, its sums would wait.
  constexpr int vectors = std::min(8, (kTiles.plane_vectors * 4 + O - 1) / O);
  constexpr int most = (O + 1) * (vectors + 1) < kTiles.registers ? vectors + 1 : vectors;
  if (b.count >= lanes) {
    int64_t x = 0;
    for (; b.count - x > most * lanes; x += vectors * lanes) tile<O, vectors>(b, x, x + (vectors - 1) * lanes);
    return last_tile<O, most>(b, x);
  }
  float row[O * lanes];
  PlaneSums whole = b;
  whole.streams = row;
  whole.stream_step = lanes;
  tile<O, 1>(whole, 0, 0);
  for (int o = 0; o < O; ++o)
    std::memcpy(b.streams + o * b.stream_step, row + o * lanes, static_cast<size_t>(b.count) * sizeof(float));
}

void sums_of_block(const PlaneSums& b) {
  switch (b.outputs) {
    case 1:
      return sums_of_row<1>(b);
    case 2:
      return sums_of_row<2>(b);
    case 3:
      return sums_of_row<3>(b);
    default:
      return sums_of_row<4>(b);
  }
}

// R rows of V vectors, as sums_of_tile() has channels. kLines: of the kernel, 0 for any; which rows see a line is no
// question at run time then.
template <int R, int V, int kLines>
HWY_NOINLINE void sums_of_rows(const PlaneSums& b, int64_t x, int64_t last) {
  const Tag d;
  const int64_t lines = kLines ? kLines : b.lines, taps = b.taps;
  const float* HWY_RESTRICT w = b.weights;
  const int64_t* HWY_RESTRICT offset = b.offset;
  hn::Vec<Tag> sum[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = b.bias ? hn::Set(d, *b.bias) : hn::Zero(d);
  }
#pragma GCC unroll 8
  for (int64_t l = 0; l < lines + R - 1; ++l) {
    if (!b.line[l]) continue;
    const float* HWY_RESTRICT plane = b.line[l] + b.plane;
    for (int64_t t = 0; t < taps; ++t) {
      const float* HWY_RESTRICT from = plane + offset[t];
      hn::Vec<Tag> a[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) a[v] = hn::LoadU(d, v + 1 < V ? from + x + v * lanes : from + last);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        if (l < r || l - r >= lines) continue;
        const auto factor = hn::Set(d, w[(l - r) * taps + t]);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(a[v], factor, sum[r][v]);
      }
    }
  }
  store_streams(b, sum, x, last);
}

template <int R, int V>
void rows_tile(const PlaneSums& b, int64_t x, int64_t last) {
  b.lines == 3 ? sums_of_rows<R, V, 3>(b, x, last) : sums_of_rows<R, V, 0>(b, x, last);
}

template <int R, int V>
void last_of_rows(const PlaneSums& b, int64_t x) {
  if constexpr (V > 1) {
    if (b.count - x <= (V - 1) * lanes) return last_of_rows<R, V - 1>(b, x);
  }
  rows_tile<R, V>(b, x, b.count - lanes);
}

// R rows of V vectors, each of lines of its own.
template <int R, int V>
HWY_NOINLINE void sums_of_separate_rows(const PlaneSums& b, int64_t x, int64_t last) {
  const Tag d;
  hn::Vec<Tag> sum[R][V];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = b.bias ? hn::Set(d, *b.bias) : hn::Zero(d);
  }
  for (int64_t l = 0; l < b.lines; ++l) {
    const float* plane[R];
    bool whole = true;
    for (int r = 0; r < R; ++r) {
      plane[r] = b.line[r * b.lines + l];
      whole = whole && plane[r];
    }
    const float* HWY_RESTRICT w = b.weights + l * b.taps;
    for (int64_t t = 0; t < b.taps; ++t) {
      const auto factor = hn::Set(d, w[t]);
      const int64_t offset = b.plane + b.offset[t];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        if (!whole && !plane[r]) continue;
        const float* from = plane[r] + offset;
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
          sum[r][v] = hn::MulAdd(hn::LoadU(d, v + 1 < V ? from + x + v * lanes : from + last), factor, sum[r][v]);
      }
    }
  }
  store_streams(b, sum, x, last);
}

template <int R, int V>
void last_of_separate_rows(const PlaneSums& b, int64_t x) {
  if constexpr (V > 1) {
    if (b.count - x <= (V - 1) * lanes) return last_of_separate_rows<R, V - 1>(b, x);
  }
  sums_of_separate_rows<R, V>(b, x, b.count - lanes);
}

void separate_row_sums(const PlaneSums& b, int64_t rows) {
  constexpr int together = kTiles.registers >= 32 ? 4 : 2, vectors = 4;
  PlaneSums part = b;
  int64_t r = 0;
  for (; r + together <= rows && b.count >= lanes; r += together) {
    int64_t x = 0;
    for (; b.count - x > vectors * lanes; x += vectors * lanes)
      sums_of_separate_rows<together, vectors>(part, x, x + (vectors - 1) * lanes);
    last_of_separate_rows<together, vectors>(part, x);
    part.line += together * b.lines;
    part.streams += together * b.stream_step;
  }
  for (; r < rows; ++r, part.line += b.lines, part.streams += b.stream_step) sums_of_row<1>(part);
}

// Each row by itself where they are few, or narrower than a vector.
void row_sums(const PlaneSums& b, int64_t rows) {
  constexpr int together = kTiles.registers >= 32 ? 4 : 2, vectors = 4;
  static_assert(together <= kPlaneRows);
  int64_t r = 0;
  PlaneSums part = b;
  for (; r + together <= rows && b.count >= lanes; r += together) {
    int64_t x = 0;
    for (; b.count - x > vectors * lanes; x += vectors * lanes)
      rows_tile<together, vectors>(part, x, x + (vectors - 1) * lanes);
    last_of_rows<together, vectors>(part, x);
    part.line += together;
    part.streams += together * b.stream_step;
  }
  for (; r < rows; ++r, ++part.line, part.streams += b.stream_step) sums_of_row<1>(part);
}

void deal(const float* even, const float* odd, int64_t pairs, float* to) {
  const Tag d;
  const auto deal_vector = [&](int64_t at) HWY_ATTR {
    hn::StoreInterleaved2(hn::LoadU(d, even + at), hn::LoadU(d, odd + at), d, to + 2 * at);
  };
  int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) deal_vector(i);
  if (pairs >= lanes) {
    if (i < pairs) deal_vector(pairs - lanes);  // some once more
    return;
  }
  for (; i < pairs; ++i) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
}

template <int kStride>
HWY_INLINE void deal_vector(const float* from, float* to, int64_t pitch) {
  const Tag d;
  hn::Vec<Tag> phase[4];
  if constexpr (kStride == 2) {
    hn::LoadInterleaved2(d, from, phase[0], phase[1]);
  } else if constexpr (kStride == 3) {
    hn::LoadInterleaved3(d, from, phase[0], phase[1], phase[2]);
  } else {
    hn::LoadInterleaved4(d, from, phase[0], phase[1], phase[2], phase[3]);
  }
#pragma GCC unroll 4
  for (int p = 0; p < kStride; ++p) hn::StoreU(phase[p], d, to + p * pitch);
}

template <int kStride>
void phases_of(const float* from, int64_t count, float* to, int64_t pitch) {
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) deal_vector<kStride>(from + kStride * i, to + i, pitch);
  if (i < count && count >= lanes) {
    i = count - lanes;  // some once more
    deal_vector<kStride>(from + kStride * i, to + i, pitch);
    return;
  }
  for (; i < count; ++i)
    for (int p = 0; p < kStride; ++p) to[p * pitch + i] = from[kStride * i + p];
}

void phases_of_line(const float* from, int64_t count, int64_t stride, float* to, int64_t pitch) {
  switch (stride) {
    case 2:
      return phases_of<2>(from, count, to, pitch);
    case 3:
      return phases_of<3>(from, count, to, pitch);
    case 4:
      return phases_of<4>(from, count, to, pitch);
    default:
      for (int64_t p = 0; p < stride; ++p)
        for (int64_t i = 0; i < count; ++i) to[p * pitch + i] = from[stride * i + p];
  }
}

void every_second(const float* from, int64_t count, float* to) {
  const Tag d;
  int64_t i = 0;
  for (; i + lanes < count; i += lanes) {
    hn::Vec<Tag> even, odd;
    hn::LoadInterleaved2(d, from + 2 * i, even, odd);
    hn::StoreU(even, d, to + i);
  }
  for (; i < count; ++i) to[i] = from[2 * i];
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(sums_of_block);
HWY_EXPORT(row_sums);
HWY_EXPORT(separate_row_sums);
HWY_EXPORT(deal);
HWY_EXPORT(every_second);
HWY_EXPORT(phases_of_line);

void plane_sums(const PlaneSums& sums) {
  HWY_DYNAMIC_DISPATCH(sums_of_block)(sums);
}

void plane_row_sums(const PlaneSums& sums, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(row_sums)(sums, rows);
}

void deal_phases(const float* from, int64_t count, int64_t stride, float* to, int64_t pitch) {
  HWY_DYNAMIC_DISPATCH(phases_of_line)(from, count, stride, to, pitch);
}

void plane_separate_row_sums(const PlaneSums& sums, int64_t rows) {
  HWY_DYNAMIC_DISPATCH(separate_row_sums)(sums, rows);
}

void take_every_second(const float* from, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(every_second)(from, count, to);
}

void deal_pairs(const float* even, const float* odd, int64_t pairs, float* to) {
  HWY_DYNAMIC_DISPATCH(deal)(even, odd, pairs, to);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
