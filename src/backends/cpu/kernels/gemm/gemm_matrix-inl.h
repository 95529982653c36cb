// A panel of a product of bf16 by a unit that multiplies tiles (matrix_unit.h), which finishes its sums as register
// tiles do theirs. Included once per instruction set.
#if defined(CAMSHAFT_CPU_GEMM_MATRIX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_GEMM_MATRIX_INL_H
#undef CAMSHAFT_CPU_GEMM_MATRIX_INL_H
#else
#define CAMSHAFT_CPU_GEMM_MATRIX_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/cpu/kernels/gemm/gemm_blocking.h"
#include "backends/cpu/kernels/gemm/gemm_tile-inl.h"
#include "backends/cpu/kernels/gemm/matrix_tiles.h"
#include "backends/cpu/kernels/gemm/tile_rows.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

/// Words of pairs that no register tile multiplies.
struct MatrixWords {};

/// One thread's rows of an M block and a K block, as tiles.
class MatrixRows {
 public:
  explicit MatrixRows(const Scratch& scratch)
      : rows_(scratch.tiles, scratch.tile_copies), last_step_(scratch.last_step) {}

  /// Row r of tap t starts at pointers[t * tap_stride + r] + offset.
  void set(const float* const* pointers, int64_t tap_stride, const KBlock& block, int64_t offset, int64_t rows) {
    sums_.product = TileProduct::bf16_pairs;
    sums_.taps = block.taps;
    sums_.steps = TileSteps::of(block.depth);
    words_ = block.taps * block.depth;
    if (sums_.steps.covered() == block.depth) {
      rows_.set(pointers, tap_stride, block.taps, rows, block.depth * 4, offset * 4);
      return;
    }
    sums_.taps = 1;
    sums_.steps = TileSteps::of(words_);
    rows_.gather(pointers, tap_stride, block.taps, rows, block.depth * 4, offset * 4, sums_.steps.covered() * 4);
  }

  /// What is multiplied with the panel's `stored` columns from `b` on. Behind K there are zeros.
  TileSums& with(const float* b, int64_t stored) {
    sums_.b = reinterpret_cast<const char*>(b);
    sums_.b_stride = stored * 4;
    sums_.b_last = nullptr;
    if (sums_.taps * sums_.steps.covered() == words_) return sums_;
    const int64_t whole = (sums_.steps.count - 1) * sums_.steps.words * stored, rest = words_ * stored - whole;
    std::memcpy(last_step_, b + whole, static_cast<size_t>(rest) * 4);
    std::fill(last_step_ + rest, last_step_ + sums_.steps.words * stored, 0.0f);
    sums_.b_last = reinterpret_cast<const char*>(last_step_);
    return sums_;
  }

  const TileRows* at(int64_t row) const { return rows_.at(row); }

 private:
  TileRowBlock rows_;
  float* last_step_;
  TileSums sums_;
  int64_t words_ = 0;
};

inline constexpr int kMatrixFinishRows = 4;

template <int NV, int MR>
HWY_INLINE void finish_sums_of_rows(const TileArgs& t, const float* sums) {
  const TileTag d;
  TileVec of_tile[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) of_tile[r][v] = hn::Load(d, sums + (r * NV + v) * tile_lanes());
  }
  finish_tile<MR, NV>(t, of_tile);
}

// `rows` rows of NV vectors of sums, from row t.row0 of C on.
template <int NV>
HWY_NOINLINE void finish_matrix_rows(TileArgs t, int64_t rows, const float* sums) {
  const auto advance = [&](int64_t by) {
    t.row0 += by;
    if (t.out_rows) t.out_rows += by;
    sums += by * NV * tile_lanes();
  };
  int64_t row = 0;
  for (; row + kMatrixFinishRows <= rows; row += kMatrixFinishRows, advance(kMatrixFinishRows))
    finish_sums_of_rows<NV, kMatrixFinishRows>(t, sums);
  for (; row < rows; ++row, advance(1)) finish_sums_of_rows<NV, 1>(t, sums);
}

// Asks for the rows of C and of the residuals that tiles of sums go to.
template <int NV>
HWY_INLINE void prefetch_matrix_rows(TileArgs t, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row, ++t.row0) {
    prefetch_c_and_residuals<1, NV>(t);
    if (t.out_rows) ++t.out_rows;
  }
}

template <class F>
HWY_INLINE void with_vectors(int64_t vectors, const F& f) {
  if constexpr (kTileVectors == 4) {
    if (vectors == 4) return f(std::integral_constant<int, 4>());
    if (vectors == 3) return f(std::integral_constant<int, 3>());
  }
  if (vectors == 2) return f(std::integral_constant<int, 2>());
  f(std::integral_constant<int, 1>());
}

// As run_panel(), of which `activate` is what it does with a tile.
template <class Activate>
void run_matrix_panel(TileArgs& t, MatrixRows& block, MatrixTiles& matrix, int64_t row0, const int64_t* out_rows,
                      int64_t rows, int64_t columns, uintptr_t next_b, int64_t next_floats,
                      const Activate& activate_rows) {
  constexpr int64_t lanes = tile_lanes(), pair_rows = 2 * kTileRows;
  constexpr int64_t most_columns = kTileVectors * lanes;
  const int64_t vectors = divide_up(columns, lanes), stored = vectors * lanes;
  t.tail_lanes = static_cast<int>(columns - (vectors - 1) * lanes);
  TileSums& s = block.with(t.b, stored);
  const int64_t calls = divide_up(rows, pair_rows) * divide_up(stored, 2 * kTileColumns);
  const int64_t steps = std::max<int64_t>(1, s.taps * s.steps.count);
  int64_t lines_left = next_floats / 16;
  s.prefetch = next_b;
  s.prefetch_lines = static_cast<int>(std::min<int64_t>(16, divide_up(divide_up(lines_left, calls), steps)));
  for (int64_t row = 0; row < rows; row += pair_rows) {
    const int64_t height = std::min(pair_rows, rows - row);
    t.row0 = row0 + row;
    t.out_rows = out_rows ? out_rows + row : nullptr;
    with_vectors(vectors, [&](auto nv) HWY_ATTR { prefetch_matrix_rows<decltype(nv)::value>(t, height); });
    HWY_ALIGN float sums[pair_rows * most_columns];
    s.row_tiles = divide_up(height, kTileRows);
    for (int i = 0; i < s.row_tiles; ++i) {
      s.rows[i] = std::min(kTileRows, height - i * kTileRows);
      s.a[i] = block.at(row + i * kTileRows);
    }
    const char* const b = s.b;
    const char* const b_last = s.b_last;
    for (int64_t column = 0; column < stored; column += 2 * kTileColumns) {
      const int64_t width = std::min(2 * kTileColumns, stored - column);
      s.column_tiles = divide_up(width, kTileColumns);
      for (int i = 0; i < s.column_tiles; ++i) s.columns[i] = std::min(kTileColumns, width - i * kTileColumns);
      s.b = b + column * 4;
      s.b_last = b_last ? b_last + column * 4 : nullptr;
      s.sums = sums + column;
      s.sums_ld = stored;
      if (lines_left <= 0) s.prefetch_lines = 0;
      matrix.add_up(s);
      s.prefetch += static_cast<uintptr_t>(steps * s.prefetch_lines * 64);
      lines_left -= steps * s.prefetch_lines;
    }
    s.b = b;
    s.b_last = b_last;
    with_vectors(vectors, [&](auto nv) HWY_ATTR { finish_matrix_rows<decltype(nv)::value>(t, height, sums); });
    activate_rows(height);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
