// Register tiles of plain matrices, whose rows lie a constant step apart, for panels of which the last vector is half
// empty at least, and for those of one vector. Included once per instruction set.
//
// Half a vector of columns: two rows share one sum, so that 24 columns take three multiply-adds for two rows and not
// four (96 -> 24: 20 to 28 % more GFLOP/s). One vector: an address that walks over the rows in place of a pointer for
// each, of which the registers hold ten at most, allows tiles of sixteen (32 -> 16: 164 -> 175 GFLOP/s on a core that
// does 245). Wider panels gained nothing by it.
#if defined(CAMSHAFT_CPU_GEMM_TILE_EVEN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_GEMM_TILE_EVEN_INL_H
#undef CAMSHAFT_CPU_GEMM_TILE_EVEN_INL_H
#else
#define CAMSHAFT_CPU_GEMM_TILE_EVEN_INL_H
#endif

#include "backends/cpu/kernels/gemm/gemm_tile-inl.h"

#if CAMSHAFT_SHARES_VECTORS
HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

/// Most rows of a tile, by the vectors of its panel.
inline constexpr TileShape kEvenTile = kTarget.even_product;

// The second half of what rows r, r even, have in their last vector is row r + 1's.
template <int MR, int NV>
HWY_INLINE void part_pairs(TileVec (&sum)[MR][NV]) {
#pragma GCC unroll 16
  for (int r = 1; r < MR; r += 2)
    sum[r][NV - 1] = hn::ConcatUpperUpper(TileTag(), sum[r - 1][NV - 1], sum[r - 1][NV - 1]);
}

namespace even {

// `kSteps` steps of K. With `kHalf` the last vector of sum[r], r even, is that of rows r and r + 1, eight columns each.
template <class Word, int MR, int NV, bool kHalf, int kSteps>
HWY_INLINE void steps(const float* a, int64_t step, const float* HWY_RESTRICT b, TileVec (&sum)[MR][NV]) {
  const TileTag d;
  constexpr int whole = kHalf ? NV - 1 : NV;
  TileVec bv[kSteps][NV];
#pragma GCC unroll 4
  for (int k = 0; k < kSteps; ++k, b += NV * tile_lanes()) {
#pragma GCC unroll 4
    for (int v = 0; v < whole; ++v) bv[k][v] = hn::LoadU(d, b + v * tile_lanes());
    if constexpr (kHalf) bv[k][NV - 1] = load_half_twice(b + (NV - 1) * tile_lanes());
  }
  TileVec before[kSteps];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r, a += step) {
    // Or the compiler makes a pointer for each row.
    __asm__("" : "+r"(a));
#pragma GCC unroll 4
    for (int k = 0; k < kSteps; ++k) {
      const TileVec av = hn::Set(d, a[k]);
#pragma GCC unroll 4
      for (int v = 0; v < whole; ++v) sum[r][v] = Word::multiply_add(av, bv[k][v], sum[r][v]);
      if constexpr (kHalf) {
        TileVec& pair = sum[r / 2 * 2][NV - 1];
        if (r % 2 == 1) {
          pair = Word::multiply_add(hn::ConcatUpperLower(d, av, before[k]), bv[k][NV - 1], pair);
        } else if (r + 1 == MR) {
          pair = Word::multiply_add(av, bv[k][NV - 1], pair);
        } else {
          before[k] = av;
        }
      }
    }
  }
}

template <class Word, int MR, int NV, bool kHalf>
HWY_NOINLINE void tile(const TileArgs& t) {
  const TileTag d;
  TileVec sum[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
  }
  prefetch_c_and_residuals<MR, NV>(t);
  const float* a = t.rows[0] + t.k_offset;
  const float* b = t.b;
  uintptr_t ahead = t.prefetch;
  const int ahead_lines = t.prefetch_lines;
  const bool ahead_near = t.prefetch_near;
  const int64_t step = t.row_step;
  int64_t k = 0;
  for (; k + 4 <= t.depth; k += 4, a += 4, b += 4 * NV * tile_lanes()) {
    prefetch_lines(ahead, ahead_lines, ahead_near);
    if constexpr (NV == 1) {
      steps<Word, MR, NV, kHalf, 4>(a, step, b, sum);
    } else {
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) steps<Word, MR, NV, kHalf, 1>(a + i, step, b + i * NV * tile_lanes(), sum);
    }
  }
  for (; k < t.depth; ++k, ++a, b += NV * tile_lanes()) steps<Word, MR, NV, kHalf, 1>(a, step, b, sum);
  if constexpr (kHalf) part_pairs<MR, NV>(sum);
  finish_tile<MR, NV>(t, sum);
}

template <class Word, int NV, bool kHalf, int MR = kEvenTile.rows[NV - 1]>
HWY_INLINE void tile_of_rows(int64_t rows, const TileArgs& t) {
  if constexpr (MR == 1) {
    tile<Word, 1, NV, kHalf>(t);
  } else {
    if (rows == MR) return tile<Word, MR, NV, kHalf>(t);
    tile_of_rows<Word, NV, kHalf, MR - 1>(rows, t);
  }
}

}  // namespace even

/// Whether a panel of `vectors`, of which the last has `tail_lanes` lanes, has tiles here.
HWY_INLINE bool has_even_tiles(int64_t vectors, int tail_lanes) {
  return vectors == 1 || tail_lanes <= tile_lanes() / 2;
}

/// The tile for `rows` rows, 1 <= rows <= kEvenTile.rows[vectors - 1].
template <class Word>
HWY_INLINE void even_tile(int64_t vectors, int64_t rows, const TileArgs& t) {
  if (vectors == 4) return even::tile_of_rows<Word, 4, true>(rows, t);
  if (vectors == 3) return even::tile_of_rows<Word, 3, true>(rows, t);
  if (vectors == 2) return even::tile_of_rows<Word, 2, true>(rows, t);
  even::tile_of_rows<Word, 1, false>(rows, t);
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif
