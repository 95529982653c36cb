// Register tiles of attention's two products, and the transposition of keys. Included once per instruction set.
#if defined(CAMSHAFT_CPU_ATTENTION_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ATTENTION_TILE_INL_H
#undef CAMSHAFT_CPU_ATTENTION_TILE_INL_H
#else
#define CAMSHAFT_CPU_ATTENTION_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using PanelTag = hn::ScalableTag<float>;
using PanelVec = hn::Vec<PanelTag>;
HWY_INLINE constexpr int64_t panel_lanes() {
  return HWY_LANES(float);
}

// Rows x vectors of a tile fill the registers, as in gemm_tile-inl.h; narrow tiles are tall, so that enough sums are
// under way at a time.
#if HWY_TARGET <= HWY_AVX3
inline constexpr int kPanelVectors = 4;
inline constexpr int kPanelRows[kPanelVectors] = {12, 12, 8, 6};
#else
inline constexpr int kPanelVectors = 2;
inline constexpr int kPanelRows[kPanelVectors] = {8, 6};
#endif

template <int MR, int NV>
HWY_INLINE void panel_step(const float* const (&a)[MR], int64_t k, const float* HWY_RESTRICT b,
                           PanelVec (&sum)[MR][NV]) {
  const PanelTag d;
  PanelVec bv[NV];
#pragma GCC unroll 16
  for (int v = 0; v < NV; ++v) bv[v] = hn::LoadU(d, b + v * panel_lanes());
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    const PanelVec av = hn::Set(d, a[r][k]);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::MulAdd(av, bv[v], sum[r][v]);
  }
}

template <int MR, int NV>
HWY_INLINE void panel_product(const float* const (&a)[MR], const float* HWY_RESTRICT b, int64_t b_stride, int64_t depth,
                              PanelVec (&sum)[MR][NV]) {
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4, b += 4 * b_stride) {
    panel_step<MR, NV>(a, k, b, sum);
    panel_step<MR, NV>(a, k + 1, b + b_stride, sum);
    panel_step<MR, NV>(a, k + 2, b + 2 * b_stride, sum);
    panel_step<MR, NV>(a, k + 3, b + 3 * b_stride, sum);
  }
  for (; k < depth; ++k, b += b_stride) panel_step<MR, NV>(a, k, b, sum);
}

// out[r, :] = queries[r] · panel, a panel of NV vectors whose rows follow each other.
template <int MR, int NV>
HWY_NOINLINE void score_tile(const float* const* queries, const float* panel, int64_t size, float* out,
                             int64_t out_stride) {
  const PanelTag d;
  const float* a[MR];
  PanelVec sum[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    a[r] = queries[r];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
  }
  panel_product<MR, NV>(a, panel, NV * panel_lanes(), size, sum);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) hn::Store(sum[r][v], d, out + r * out_stride + v * panel_lanes());
  }
}

// out[r, k] = queries[r] · key k for up to MR rows, the keys read where they are: each once.
template <int MR>
HWY_NOINLINE void few_scores_of(const float* const* queries, const float* base, const int64_t* rows, int64_t keys,
                                int64_t size, float* out, int64_t out_stride) {
  const PanelTag d;
  const int64_t whole = size / panel_lanes() * panel_lanes();
  const auto tail = hn::FirstN(d, static_cast<size_t>(size - whole));
  for (int64_t k = 0; k < keys; ++k) {
    const float* key = base + rows[k];
    PanelVec sum[MR];
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) sum[r] = hn::Zero(d);
    for (int64_t i = 0; i < whole; i += panel_lanes()) {
      const auto v = hn::LoadU(d, key + i);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) sum[r] = hn::MulAdd(hn::LoadU(d, queries[r] + i), v, sum[r]);
    }
    if (whole < size) {
      const auto v = masked_load(tail, d, key + whole);
#pragma GCC unroll 16
      for (int r = 0; r < MR; ++r) sum[r] = hn::MulAdd(masked_load(tail, d, queries[r] + whole), v, sum[r]);
    }
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) out[r * out_stride + k] = hn::GetLane(hn::SumOfLanes(d, sum[r]));
  }
}

HWY_INLINE void few_scores(const float* const* queries, int64_t count, const float* base, const int64_t* rows,
                           int64_t keys, int64_t size, float* out, int64_t out_stride) {
  for (int64_t r = 0; r < count;) {
    const int64_t step = count - r >= 4 ? 4 : count - r >= 2 ? 2 : 1;
    float* to = out + r * out_stride;
    if (step == 4) few_scores_of<4>(queries + r, base, rows, keys, size, to, out_stride);
    if (step == 2) few_scores_of<2>(queries + r, base, rows, keys, size, to, out_stride);
    if (step == 1) few_scores_of<1>(queries + r, base, rows, keys, size, to, out_stride);
    r += step;
  }
}

struct ValueTile {
  const float* p = nullptr;  // probabilities, row after row
  int64_t p_stride = 0;
  const float* v = nullptr;  // values, padded to whole vectors
  int64_t v_stride = 0;
  int64_t depth = 0;
  float* sums = nullptr;
  int64_t sums_stride = 0;
  bool add = false;               // to what the sums hold …
  bool rescale = false;           // … times the row's factor
  const float* factor = nullptr;  // of each row
};

template <int MR, int NV>
HWY_NOINLINE void value_tile(const ValueTile& t, int64_t row) {
  const PanelTag d;
  const float* a[MR];
  PanelVec sum[MR][NV];
  float* out = t.sums + row * t.sums_stride;
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    a[r] = t.p + (row + r) * t.p_stride;
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
    if (!t.add) continue;
    const auto factor = hn::Set(d, t.rescale ? t.factor[row + r] : 1.0f);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Mul(hn::Load(d, out + r * t.sums_stride + v * panel_lanes()), factor);
  }
  panel_product<MR, NV>(a, t.v, t.v_stride, t.depth, sum);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) hn::Store(sum[r][v], d, out + r * t.sums_stride + v * panel_lanes());
  }
}

// Calls `tile<rows, NV>` for each of the tiles, of even height, that `rows` are cut into.
template <int NV, int MR, class Call>
HWY_INLINE void of_height(int64_t height, Call&& call) {
  if constexpr (MR == 1) {
    call(std::integral_constant<int, 1>());
  } else {
    if (height == MR) return call(std::integral_constant<int, MR>());
    of_height<NV, MR - 1>(height, call);
  }
}

template <int NV, class Call>
HWY_INLINE void for_tiles(int64_t rows, Call&& call) {
  constexpr int64_t most = kPanelRows[NV - 1];
  const int64_t tiles = (rows + most - 1) / most;
  for (int64_t i = 0, row = 0; i < tiles; ++i) {
    const int64_t height = (rows - row + tiles - i - 1) / (tiles - i);
    of_height<NV, kPanelRows[NV - 1]>(height, [&](auto mr) HWY_ATTR { call(mr, row); });
    row += height;
  }
}

template <int NV>
HWY_INLINE void score_tiles_of(const float* const* queries, int64_t rows, const float* panel, int64_t size, float* out,
                               int64_t out_stride) {
  for_tiles<NV>(rows, [&](auto mr, int64_t row) HWY_ATTR {
    score_tile<decltype(mr)::value, NV>(queries + row, panel, size, out + row * out_stride, out_stride);
  });
}

HWY_INLINE void score_tiles(int64_t vectors, const float* const* queries, int64_t rows, const float* panel,
                            int64_t size, float* out, int64_t out_stride) {
#if HWY_TARGET <= HWY_AVX3
  if (vectors == 4) return score_tiles_of<4>(queries, rows, panel, size, out, out_stride);
  if (vectors == 3) return score_tiles_of<3>(queries, rows, panel, size, out, out_stride);
#endif
  if (vectors == 2) return score_tiles_of<2>(queries, rows, panel, size, out, out_stride);
  score_tiles_of<1>(queries, rows, panel, size, out, out_stride);
}

template <int NV>
HWY_INLINE void value_tiles_of(int64_t rows, const ValueTile& t) {
  for_tiles<NV>(rows, [&](auto mr, int64_t row) HWY_ATTR { value_tile<decltype(mr)::value, NV>(t, row); });
}

HWY_INLINE void value_tiles(int64_t vectors, int64_t rows, const ValueTile& t) {
#if HWY_TARGET <= HWY_AVX3
  if (vectors == 4) return value_tiles_of<4>(rows, t);
  if (vectors == 3) return value_tiles_of<3>(rows, t);
#endif
  if (vectors == 2) return value_tiles_of<2>(rows, t);
  value_tiles_of<1>(rows, t);
}

#if HWY_TARGET <= HWY_AVX3 && HWY_TARGET != HWY_SCALAR
// 16 rows of 16 elements become columns: neighbours first, then 128-bit blocks.
HWY_INLINE void transpose_16x16(const float* const* rows, float* out, int64_t stride) {
  const hn::FixedTag<float, 16> d;
  const hn::FixedTag<double, 8> pairs;
  hn::Vec<decltype(d)> quads[4][4];  // [group of four rows][column mod 4]: in block b the four rows of column 4b + i
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) {
    const auto r0 = hn::LoadU(d, rows[4 * g]), r1 = hn::LoadU(d, rows[4 * g + 1]);
    const auto r2 = hn::LoadU(d, rows[4 * g + 2]), r3 = hn::LoadU(d, rows[4 * g + 3]);
    const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
    const auto b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
    const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
    const auto f = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
    quads[g][0] = hn::BitCast(d, hn::InterleaveLower(pairs, a, b));
    quads[g][1] = hn::BitCast(d, hn::InterleaveUpper(pairs, a, b));
    quads[g][2] = hn::BitCast(d, hn::InterleaveLower(pairs, e, f));
    quads[g][3] = hn::BitCast(d, hn::InterleaveUpper(pairs, e, f));
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto x0 = quads[0][i], x1 = quads[1][i], x2 = quads[2][i], x3 = quads[3][i];
    const auto even01 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(x1), x0);
    const auto even23 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(x3), x2);
    const auto odd01 = hn::OddEvenBlocks(x1, hn::SwapAdjacentBlocks(x0));
    const auto odd23 = hn::OddEvenBlocks(x3, hn::SwapAdjacentBlocks(x2));
    hn::StoreU(hn::ConcatLowerLower(d, even23, even01), d, out + i * stride);
    hn::StoreU(hn::ConcatLowerLower(d, odd23, odd01), d, out + (4 + i) * stride);
    hn::StoreU(hn::ConcatUpperUpper(d, even23, even01), d, out + (8 + i) * stride);
    hn::StoreU(hn::ConcatUpperUpper(d, odd23, odd01), d, out + (12 + i) * stride);
  }
}
#endif

// Row k of the source, at base + rows[k], becomes column k of `out`: count rows of `size` elements.
HWY_NOINLINE void pack_columns(const float* base, const int64_t* rows, int64_t count, int64_t size, int64_t stored,
                               float* out) {
  int64_t k = 0;
#if HWY_TARGET <= HWY_AVX3 && HWY_TARGET != HWY_SCALAR
  if (size % 16 == 0) {
    for (; k + 16 <= count; k += 16) {
      const float* from[16];
      for (int64_t j = 0; j < 16; ++j) from[j] = base + rows[k + j];
      for (int64_t i = 0; i < size; i += 16) {
        transpose_16x16(from, out + i * stored + k, stored);
        for (const float*& f : from) f += 16;
      }
    }
  }
#endif
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::FixedTag<double, 2> pairs;
  for (; k + 4 <= count; k += 4) {
    const float *f0 = base + rows[k], *f1 = base + rows[k + 1], *f2 = base + rows[k + 2], *f3 = base + rows[k + 3];
    float* to = out + k;
    int64_t i = 0;
    for (; i + 4 <= size; i += 4) {
      const auto r0 = hn::LoadU(d, f0 + i), r1 = hn::LoadU(d, f1 + i);
      const auto r2 = hn::LoadU(d, f2 + i), r3 = hn::LoadU(d, f3 + i);
      const auto a = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
      const auto b = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
      const auto e = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
      const auto f = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, a, b)), d, to + i * stored);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)), d, to + (i + 1) * stored);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, e, f)), d, to + (i + 2) * stored);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, e, f)), d, to + (i + 3) * stored);
    }
    for (; i < size; ++i) {
      float* column = to + i * stored;
      column[0] = f0[i], column[1] = f1[i], column[2] = f2[i], column[3] = f3[i];
    }
  }
#endif
  for (; k < count; ++k) {
    const float* from = base + rows[k];
    for (int64_t i = 0; i < size; ++i) out[i * stored + k] = from[i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
