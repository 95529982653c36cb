// The register tile: MR rows x NV vectors of C, all of one K block. Included once per instruction set.
#if defined(CAMSHAFT_CPU_GEMM_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_GEMM_TILE_INL_H
#undef CAMSHAFT_CPU_GEMM_TILE_INL_H
#else
#define CAMSHAFT_CPU_GEMM_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "backends/cpu/kernels/cache_line.h"
#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/gemm/gemm_tile.h"
#include "backends/cpu/kernels/gemm/word_product-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using TileTag = hn::ScalableTag<float>;
using TileVec = hn::Vec<TileTag>;
HWY_INLINE constexpr int tile_lanes() {
  return static_cast<int>(HWY_LANES(float));
}

// A tile needs MR * NV accumulators, NV vectors of B and one of A.
inline constexpr TileShape kTile = kTiles.product;
inline constexpr int kTileVectors = kTile.vectors;

template <class Word, int MR, int NV>
HWY_INLINE void tile_step(const float* const (&a)[MR], int64_t k, const float* HWY_RESTRICT b, TileVec (&sum)[MR][NV]) {
  const TileTag d;
  TileVec bv[NV];
#pragma GCC unroll 16
  for (int v = 0; v < NV; ++v) bv[v] = hn::LoadU(d, b + v * tile_lanes());
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    const TileVec av = hn::Set(d, a[r][k]);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = Word::multiply_add(av, bv[v], sum[r][v]);
  }
}

// Asks for the tile's part of a matrix whose rows are `ld` apart: it is used after a thousand cycles and more. Where a
// few rows of K make a wide C (96 -> 384 for 3136 rows), stores into lines that are in no cache took a tenth of the
// time.
template <int MR, int NV, bool kWrite>
HWY_INLINE void prefetch_tile(const TileArgs& t, const float* base, int64_t ld) {
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    const float* row = base + (t.out_rows ? t.out_rows[r] : t.row0 + r) * ld;
    for (int i = 0; i < NV * tile_lanes(); i += 16) __builtin_prefetch(row + i, kWrite);
  }
}

template <int MR, int NV>
HWY_INLINE void prefetch_c_and_residuals(const TileArgs& t) {
  // What C holds from the last K block is in L2 still, and comes soon enough.
  if (!t.accumulate) prefetch_tile<MR, NV, true>(t, t.c, t.ldc);
  for (int i = 0; t.last && i < t.residual_count; ++i)
    prefetch_tile<MR, NV, false>(t, t.residuals[i].data, t.residuals[i].ld);
}

HWY_INLINE void prefetch_lines(uintptr_t& ahead, int lines, bool near) {
  for (int i = 0; i < lines; ++i, ahead += 64) {
    if (near) {
      __builtin_prefetch(at_address(ahead), 0, 3);
    } else {
      __builtin_prefetch(at_address(ahead), 0, 2);
    }
  }
}

// The sums of a tile go to C, through the epilogue after the last K block.
template <int MR, int NV>
HWY_INLINE void finish_tile(const TileArgs& t, TileVec (&sum)[MR][NV]) {
  const TileTag d;
  constexpr int lanes = tile_lanes();
  const bool masked = t.tail_lanes != lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(t.tail_lanes));
  const auto row_of = [&](int r) { return t.out_rows ? t.out_rows[r] : t.row0 + r; };
  // Asked once, not for every row: with 27 steps of K (the first layer of a MobileNet) that is a tenth of the time.
  const auto add = [&](const float* from, int64_t ld) HWY_ATTR {
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const float* p = from + row_of(r) * ld;
#pragma GCC unroll 16
      for (int v = 0; v + 1 < NV; ++v) sum[r][v] = hn::Add(sum[r][v], hn::LoadU(d, p + v * lanes));
      p += (NV - 1) * lanes;
      sum[r][NV - 1] = hn::Add(sum[r][NV - 1], masked ? masked_load(mask, d, p) : hn::LoadU(d, p));
    }
  };
  if (t.accumulate) add(t.c, t.ldc);
  if (t.last) {
    if (t.bias) {
      TileVec bias[NV];
#pragma GCC unroll 16
      for (int v = 0; v + 1 < NV; ++v) bias[v] = hn::LoadU(d, t.bias + v * lanes);
      bias[NV - 1] = masked ? masked_load(mask, d, t.bias + (NV - 1) * lanes) : hn::LoadU(d, t.bias + (NV - 1) * lanes);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < NV; ++v) sum[r][v] = hn::Add(sum[r][v], bias[v]);
      }
    }
    for (int i = 0; i < t.residual_count; ++i) add(t.residuals[i].data, t.residuals[i].ld);
    if (t.clamp) {
      const auto lo = hn::Set(d, t.lo);
      const auto hi = hn::Set(d, t.hi);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
        for (int v = 0; v < NV; ++v) sum[r][v] = clamp_keeping_nan(sum[r][v], lo, hi);
      }
    }
  }
  const auto store = [&](auto&& store_last) HWY_ATTR {
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      float* c = t.c + row_of(r) * t.ldc;
#pragma GCC unroll 16
      for (int v = 0; v + 1 < NV; ++v) hn::StoreU(sum[r][v], d, c + v * lanes);
      store_last(sum[r][NV - 1], c + (NV - 1) * lanes);
    }
  };
  if (masked)
    store([&](TileVec v, float* c) HWY_ATTR { masked_store(v, mask, d, c); });
  else
    store([&](TileVec v, float* c) HWY_ATTR { hn::StoreU(v, d, c); });
}

template <class Word, int MR, int NV>
HWY_NOINLINE void tile(const TileArgs& t) {
  const TileTag d;
  constexpr int lanes = tile_lanes();
  TileVec sum[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
  }

  prefetch_c_and_residuals<MR, NV>(t);

  const float* b = t.b;
  uintptr_t ahead = t.prefetch;
  const int ahead_lines = t.prefetch_lines;
  const bool ahead_near = t.prefetch_near;
  const int next_rows = t.next_rows;
  bool untouched = true;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const float* const* rows = t.rows + tap * t.tap_stride;
    if (t.zeros) {
      bool padding = true;
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) padding &= rows[r] == t.zeros;
      if (padding) {
        b += t.depth * NV * lanes;
        continue;
      }
    }
    untouched = false;
    const float* a[MR];
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) a[r] = rows[r] + t.k_offset;
    int64_t k = 0;
    for (; k + 4 <= t.depth; k += 4) {
      prefetch_lines(ahead, ahead_lines, ahead_near);
      // Few panels to share the wait for an image in L3: layers of 32 and 64 channels of YOLOv5s take 10 % less time.
      if (next_rows > 0 && k % 16 == 0)
        for (int r = 0; r < next_rows; ++r) __builtin_prefetch(rows[MR + r] + t.k_offset + k);
      tile_step<Word, MR, NV>(a, k, b, sum);
      tile_step<Word, MR, NV>(a, k + 1, b + NV * lanes, sum);
      tile_step<Word, MR, NV>(a, k + 2, b + 2 * NV * lanes, sum);
      tile_step<Word, MR, NV>(a, k + 3, b + 3 * NV * lanes, sum);
      b += 4 * NV * lanes;
    }
    for (; k < t.depth; ++k, b += NV * lanes) tile_step<Word, MR, NV>(a, k, b, sum);
  }

  if (!untouched || !t.accumulate || t.last) finish_tile<MR, NV>(t, sum);
}

// The tile for `rows` rows, 1 <= rows <= kTile.rows[NV - 1].
template <class Word, int NV, int MR = kTile.rows[NV - 1]>
HWY_INLINE void tile_of_rows(int64_t rows, const TileArgs& t) {
  if constexpr (MR == 1) {
    tile<Word, 1, NV>(t);
  } else {
    if (rows == MR) return tile<Word, MR, NV>(t);
    tile_of_rows<Word, NV, MR - 1>(rows, t);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
