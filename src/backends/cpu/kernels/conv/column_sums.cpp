#include "backends/cpu/kernels/conv/column_sums.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/column_sums.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;
constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));

// Terms that are summed up by themselves: in sums of thousands, each term is rounded to what all before it have become.
// 1024 equal ones by 1000 were off by 2e-6 of their scale, 2e-7 with 256.
constexpr int64_t most_terms = 256;

// R outputs of V vectors. kTail: the last one of these is not full.
template <int R, int V, bool kTail>
HWY_NOINLINE void sums_of_tile(const ColumnSums& b, int64_t row, int64_t x) {
  const Tag d;
  const auto mask = hn::FirstN(d, static_cast<size_t>(kTail ? b.count - x - (V - 1) * lanes : lanes));
  const auto load = [&](const float* from, int v) HWY_ATTR {
    return kTail && v + 1 == V ? masked_load(mask, d, from + v * lanes) : hn::LoadU(d, from + v * lanes);
  };
  // A pointer to every third row: the two behind it are one step and two away, which addresses can say.
  constexpr int pointers = (R + 2) / 3;
  const float* HWY_RESTRICT weights[pointers];
  const int64_t row_step = b.row_step, k_step = b.k_step, pitch = b.pitch;
  for (int r = 0; r < pointers; ++r) weights[r] = b.weights + (row + 3 * r) * row_step;
  const float* HWY_RESTRICT from = b.columns + x;
  const auto lo = hn::Set(d, b.lo), hi = hn::Set(d, b.hi);
  int64_t done = 0;
  do {
    hn::Vec<Tag> sum[R][V];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) sum[r][v] = b.bias && done == 0 ? hn::Set(d, b.bias[row + r]) : hn::Zero(d);
    }
    const int64_t end = std::min(b.terms, done + most_terms);
    for (int64_t k = done; k < end; ++k, from += pitch) {
      hn::Vec<Tag> a[V];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) a[v] = load(from, v);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const auto factor = hn::Set(d, weights[r / 3][r % 3 * row_step]);
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(a[v], factor, sum[r][v]);
      }
#pragma GCC unroll 4
      for (int r = 0; r < pointers; ++r) weights[r] += k_step;
    }
    const bool clamps = b.clamp && end == b.terms;
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      float* to = b.streams + (row + r) * b.stream_step + x;
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v) {
        auto y = done > 0 ? hn::Add(load(to, v), sum[r][v]) : sum[r][v];
        if (clamps) y = clamp_keeping_nan(y, lo, hi);
        if (kTail && v + 1 == V) {
          masked_store(y, mask, d, to + v * lanes);
        } else {
          hn::StoreU(y, d, to + v * lanes);
        }
      }
    }
    done = end;
  } while (done < b.terms);
}

template <int V, bool kTail, int R>
HWY_INLINE void tile_of_rows(const ColumnSums& b, int64_t rows, int64_t row, int64_t x) {
  if constexpr (R > 1) {
    if (rows < R) return tile_of_rows<V, kTail, R - 1>(b, rows, row, x);
  }
  sums_of_tile<R, V, kTail>(b, row, x);
}

// The sums of rows [row, row + rows), of weights that lie side by side. (256 channels of 5 x 76 pixels to as many by 5
// x 5 took 9.9 ms where each weight is in a line of its own.)
ColumnSums with_tile_of_weights(const ColumnSums& b, int64_t row, int64_t rows) {
  const float* HWY_RESTRICT from = b.weights + row * b.row_step;
  float* HWY_RESTRICT to = b.scratch;
  for (int64_t k = 0; k < b.terms; ++k, from += b.k_step)
    for (int64_t r = 0; r < rows; ++r) *to++ = from[r * b.row_step];
  ColumnSums tile = b;
  tile.outputs = rows;
  tile.weights = b.scratch;
  tile.row_step = 1;
  tile.k_step = rows;
  tile.bias = b.bias ? b.bias + row : nullptr;
  tile.streams = b.streams + row * b.stream_step;
  return tile;
}

// All outputs of `strips` times V vectors, by even tiles: nine are five and four, not six and three.
template <int V, bool kTail>
void sums_of_strips(const ColumnSums& b, int64_t x, int64_t strips) {
  constexpr int most = V > kTiles.product.vectors ? 2 : kTiles.product.rows[V - 1];
  static_assert(most <= kMostColumnRows);
  const int64_t tiles = (b.outputs + most - 1) / most, rows = b.outputs / tiles, taller = b.outputs % tiles;
  for (int64_t t = 0, row = 0; t < tiles; ++t) {
    const int64_t own = rows + (t < taller ? 1 : 0);
    if (b.scratch && strips > 1) {
      const ColumnSums tile = with_tile_of_weights(b, row, own);
      for (int64_t s = 0; s < strips; ++s) tile_of_rows<V, kTail, most>(tile, own, 0, x + s * V * lanes);
    } else {
      for (int64_t s = 0; s < strips; ++s) tile_of_rows<V, kTail, most>(b, own, row, x + s * V * lanes);
    }
    row += own;
  }
}

// Where all columns are in L1 anyway, results are written along their rows: 64 planes of them, a strip of each in turn,
// took half as long again.
constexpr int64_t floats_in_l1 = 10 * 1024;

template <int V>
int64_t whole_strips(const ColumnSums& b, int64_t x, int64_t strips) {
  if (strips <= 0) return x;
  if (b.scratch || b.terms * b.count <= floats_in_l1) {
    sums_of_strips<V, false>(b, x, strips);
  } else {
    for (int64_t s = 0; s < strips; ++s) sums_of_strips<V, false>(b, x + s * V * lanes, 1);
  }
  return x + strips * V * lanes;
}

template <int V>
HWY_INLINE void last_strip(const ColumnSums& b, int64_t x) {
  if constexpr (V > 1) {
    if (b.count - x <= (V - 1) * lanes) return last_strip<V - 1>(b, x);
  }
  b.count - x == V* lanes ? sums_of_strips<V, false>(b, x, 1) : sums_of_strips<V, true>(b, x, 1);
}

void sums_of_columns(const ColumnSums& b) {
  constexpr int vectors = kTiles.product.vectors;
  int64_t x = 0;
  if (b.outputs <= 0) return;
  if (b.outputs <= 2) {  // fewer sums than that wait for each other
    constexpr int wide = kTiles.registers >= 32 ? 8 : 4;
    x = whole_strips<wide>(b, x, b.count / (wide * lanes));
  }
  x = whole_strips<vectors>(b, x, (b.count - x - 1) / (vectors * lanes));
  if (x < b.count) last_strip<vectors>(b, x);
}

// to[i] = from[i * stride], i < count.
HWY_INLINE void copy_run(const float* HWY_RESTRICT from, int64_t stride, int64_t count, float* HWY_RESTRICT to) {
  const Tag d;
  int64_t i = 0;
  if (stride == 1) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    if (i < count) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
      masked_store(masked_load(mask, d, from + i), mask, d, to + i);
    }
    return;
  }
  // Nothing behind the last one is read.
  hn::Vec<Tag> first, second, third, fourth;
  if (stride == 2) {
    for (; i + lanes < count; i += lanes) {
      hn::LoadInterleaved2(d, from + 2 * i, first, second);
      hn::StoreU(first, d, to + i);
    }
  } else if (stride == 3) {
    for (; i + lanes < count; i += lanes) {
      hn::LoadInterleaved3(d, from + 3 * i, first, second, third);
      hn::StoreU(first, d, to + i);
    }
  } else if (stride == 4) {
    for (; i + lanes < count; i += lanes) {
      hn::LoadInterleaved4(d, from + 4 * i, first, second, third, fourth);
      hn::StoreU(first, d, to + i);
    }
  }
  for (; i < count; ++i) to[i] = from[i * stride];
}

HWY_INLINE void fill_run(int64_t count, float value, float* to) {
  const Tag d;
  const auto values = hn::Set(d, value);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(values, d, to + i);
  if (i < count) masked_store(values, hn::FirstN(d, static_cast<size_t>(count - i)), d, to + i);
}

// Rows shorter than a vector are looked up, pixel by pixel.
void look_up(const ColumnGather& g) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const int64_t taps = g.depth.kernel * g.height.kernel * g.tap_count;
  for (int64_t c = 0; c < g.channels; ++c) {
    const float* HWY_RESTRICT plane = g.planes + c * g.channel_step;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int32_t* HWY_RESTRICT offsets = g.offsets + tap * g.pixels;
      float* HWY_RESTRICT to = g.to + (c * taps + tap) * g.pitch;
      int64_t p = 0;
      for (; p + lanes <= g.pixels; p += lanes) {
        const auto at = hn::LoadU(di, offsets + p);
        const auto outside = hn::RebindMask(d, hn::Lt(at, hn::Zero(di)));
        const auto values = hn::GatherIndex(d, plane, hn::Max(at, hn::Zero(di)));
        hn::StoreU(hn::IfThenZeroElse(outside, values), d, to + p);
      }
      for (; p < g.pixels; ++p) to[p] = offsets[p] < 0 ? 0.0f : plane[offsets[p]];
    }
  }
}

void gather(const ColumnGather& g) {
  if (g.offsets) return look_up(g);
  const ColumnAxis &depth = g.depth, &height = g.height;
  float* to = g.to;
  for (int64_t c = 0; c < g.channels; ++c) {
    const float* plane = g.planes + c * g.channel_step;
    for (int64_t i = 0; i < depth.kernel; ++i) {
      for (int64_t j = 0; j < height.kernel; ++j, to += g.tap_count * g.pitch) {
        int64_t at = 0;
        for (const ColumnSegment* s = g.segments; s < g.segments + g.segment_count; at += s->count, ++s) {
          const int64_t z = s->z * depth.stride + i * depth.dilation - depth.pad;
          const int64_t y = s->y * height.stride + j * height.dilation - height.pad, past = s->x + s->count;
          const bool inside = z >= 0 && z < depth.in && y >= 0 && y < height.in;
          const float* line = plane + (inside ? (z * height.in + y) * g.line_step : 0);
          for (int64_t t = 0; t < g.tap_count; ++t) {
            float* own = to + t * g.pitch + at;
            if (!inside) {
              fill_run(s->count, 0.0f, own);
              continue;
            }
            const ColumnTap tap = g.taps[t];
            const int64_t from = std::clamp(tap.first, s->x, past), end = std::clamp(tap.past, from, past);
            fill_run(from - s->x, 0.0f, own);
            copy_run(line + from * g.stride + tap.shift, g.stride, end - from, own + from - s->x);
            fill_run(past - end, 0.0f, own + end - s->x);
          }
        }
      }
    }
  }
}

template <class D>
HWY_INLINE void add_vector(D d, const float* from, float* to) {
  hn::StoreU(hn::Add(hn::LoadU(d, to), hn::LoadU(d, from)), d, to);
}

// Rows within a vector: no more than the next power of two, as a load waits for a store that it overlaps, were it by a
// masked lane. (8 channels of 154 x 8 pixels by 6 x 5 took 210 us by whole vectors, and take 54.)
template <class D>
HWY_INLINE void add_short_rows(D d, const ColumnRun& run) {
  const float* HWY_RESTRICT a = run.from;
  float* HWY_RESTRICT b = run.to;
  const auto mask = hn::FirstN(d, static_cast<size_t>(run.count));
  for (int64_t r = 0; r < run.lines; ++r, a += run.from_step, b += run.to_step)
    masked_store(hn::Add(masked_load(mask, d, b), masked_load(mask, d, a)), mask, d, b);
}

// Of longer ones that lie side by side narrower vectors add what is left.
void add_run(const ColumnRun& run) {
  const hn::CappedTag<float, 4> quarter;
  const hn::CappedTag<float, 8> half;
  const Tag d;
  if (run.count <= static_cast<int64_t>(hn::Lanes(quarter))) return add_short_rows(quarter, run);
  if (run.count <= static_cast<int64_t>(hn::Lanes(half))) return add_short_rows(half, run);
  if (run.count <= lanes) return add_short_rows(d, run);
  const float* HWY_RESTRICT a = run.from;
  float* HWY_RESTRICT b = run.to;
  for (int64_t r = 0; r < run.lines; ++r, a += run.from_step, b += run.to_step) {
    int64_t i = 0;
    for (; i + lanes <= run.count; i += lanes) add_vector(d, a + i, b + i);
    if (lanes > 8 && i + 8 <= run.count) add_vector(half, a + i, b + i), i += 8;
    if (lanes > 4 && i + 4 <= run.count) add_vector(quarter, a + i, b + i), i += 4;
    for (; i < run.count; ++i) b[i] += a[i];
  }
}

template <int kStride, class Load>
HWY_INLINE void interleave(const Load& load, float* to) {
  const Tag d;
  if constexpr (kStride == 2) {
    hn::StoreInterleaved2(load(0), load(1), d, to);
  } else if constexpr (kStride == 3) {
    hn::StoreInterleaved3(load(0), load(1), load(2), d, to);
  } else {
    hn::StoreInterleaved4(load(0), load(1), load(2), load(3), d, to);
  }
}

// All phases of `groups` groups.
template <int kStride>
HWY_INLINE void deal_groups(const float* phases, int64_t step, int64_t groups, float* to) {
  const Tag d;
  for (; groups >= lanes; groups -= lanes, phases += lanes, to += kStride * lanes)
    interleave<kStride>([&](int64_t phase) HWY_ATTR { return hn::LoadU(d, phases + phase * step); }, to);
  if (groups == 0) return;
  const auto mask = hn::FirstN(d, static_cast<size_t>(groups));
  HWY_ALIGN float rest[kStride * lanes];
  interleave<kStride>([&](int64_t phase) HWY_ATTR { return masked_load(mask, d, phases + phase * step); }, rest);
  copy_run(rest, 1, kStride * groups, to);
}

void deal_rows(const ColumnRows& c) {
  const int64_t stride = c.stride, step = c.step;
  // Pixels before the first whole group, and the first of it.
  const int64_t begin = std::min(c.width, (stride - c.cut % stride) % stride), group = (begin + c.cut) / stride;
  const int64_t groups = (c.width - begin) / stride;
  for (int64_t r = 0; r < c.rows; ++r) {
    const float* HWY_RESTRICT phases = c.phases + r * stride * step;
    float* HWY_RESTRICT to = c.to + r * c.to_step;
    if (!c.is_seen[r]) {
      fill_run(c.width, phases[0], to);
      continue;
    }
    if (stride == 1) {
      copy_run(phases + c.cut, 1, c.width, to);
      continue;
    }
    const auto put = [&](int64_t x, int64_t past) {
      if (x == past) return;
      int64_t phase = (x + c.cut) % stride;
      const float* from = phases + (x + c.cut) / stride;
      for (; x < past; ++x) {
        to[x] = from[phase * step];
        if (++phase == stride) phase = 0, ++from;
      }
    };
    if (stride > 4) {
      put(0, c.width);
      continue;
    }
    put(0, begin);
    if (stride == 2) {
      deal_groups<2>(phases + group, step, groups, to + begin);
    } else if (stride == 3) {
      deal_groups<3>(phases + group, step, groups, to + begin);
    } else {
      deal_groups<4>(phases + group, step, groups, to + begin);
    }
    put(begin + groups * stride, c.width);
  }
}

void clamp_values(float* values, int64_t count, float low, float high) {
  const Tag d;
  const auto lo = hn::Set(d, low), hi = hn::Set(d, high);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(clamp_keeping_nan(hn::LoadU(d, values + i), lo, hi), d, values + i);
  if (i < count) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
    masked_store(clamp_keeping_nan(masked_load(mask, d, values + i), lo, hi), mask, d, values + i);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(sums_of_columns);
HWY_EXPORT(gather);
HWY_EXPORT(add_run);
HWY_EXPORT(deal_rows);
HWY_EXPORT(clamp_values);

void column_sums(const ColumnSums& sums) {
  HWY_DYNAMIC_DISPATCH(sums_of_columns)(sums);
}

void find_column_offsets(const ColumnGather& g, int32_t* offsets) {
  const ColumnAxis &depth = g.depth, &height = g.height;
  for (int64_t i = 0; i < depth.kernel; ++i)
    for (int64_t j = 0; j < height.kernel; ++j)
      for (const ColumnTap* tap = g.taps; tap < g.taps + g.tap_count; ++tap)
        for (const ColumnSegment* s = g.segments; s < g.segments + g.segment_count; ++s) {
          const int64_t z = s->z * depth.stride + i * depth.dilation - depth.pad;
          const int64_t y = s->y * height.stride + j * height.dilation - height.pad;
          const bool inside = z >= 0 && z < depth.in && y >= 0 && y < height.in;
          const int64_t line = (z * height.in + y) * g.line_step + tap->shift;
          for (int64_t x = s->x; x < s->x + s->count; ++x)
            *offsets++ = inside && x >= tap->first && x < tap->past ? static_cast<int32_t>(line + x * g.stride) : -1;
        }
}

void gather_columns(const ColumnGather& columns) {
  HWY_DYNAMIC_DISPATCH(gather)(columns);
}

void add_columns(const ColumnRun& run) {
  HWY_DYNAMIC_DISPATCH(add_run)(run);
}

void deal_columns(const ColumnRows& rows) {
  HWY_DYNAMIC_DISPATCH(deal_rows)(rows);
}

void clamp_columns(float* values, int64_t count, float lo, float hi) {
  HWY_DYNAMIC_DISPATCH(clamp_values)(values, count, lo, hi);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
