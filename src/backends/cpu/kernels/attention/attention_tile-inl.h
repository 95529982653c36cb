// Register tiles of attention's two products. Included once per instruction set.
#if defined(CAMSHAFT_CPU_ATTENTION_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ATTENTION_TILE_INL_H
#undef CAMSHAFT_CPU_ATTENTION_TILE_INL_H
#else
#define CAMSHAFT_CPU_ATTENTION_TILE_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "backends/cpu/kernels/attention/attention_ahead.h"
#include "backends/cpu/kernels/gemm/word_product-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/pointwise/vector_math-inl.h"

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
inline constexpr TileShape kPanelTile = kTiles.attention;
inline constexpr int kPanelVectors = kPanelTile.vectors;

template <class Word, int MR, int NV>
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
    for (int v = 0; v < NV; ++v) sum[r][v] = Word::multiply_add(av, bv[v], sum[r][v]);
  }
}

template <class Word, int MR, int NV>
HWY_INLINE void panel_product(const float* const (&a)[MR], const float* HWY_RESTRICT b, int64_t b_stride, int64_t depth,
                              PanelVec (&sum)[MR][NV]) {
  int64_t k = 0;
  for (; k + 4 <= depth; k += 4, b += 4 * b_stride) {
    panel_step<Word, MR, NV>(a, k, b, sum);
    panel_step<Word, MR, NV>(a, k + 1, b + b_stride, sum);
    panel_step<Word, MR, NV>(a, k + 2, b + 2 * b_stride, sum);
    panel_step<Word, MR, NV>(a, k + 3, b + 3 * b_stride, sum);
  }
  for (; k < depth; ++k, b += b_stride) panel_step<Word, MR, NV>(a, k, b, sum);
}

// A mask that is added, row r at data + rows[r].
struct AddedMask {
  const float* data;
  const int64_t* rows;
};

// What becomes of a block's scores on their way to memory, while they are in registers: passes over them of their own
// took 2.5 cycles a vector of scores, for which the products take 64 (heads of 64).
struct ScoreFinish {
  float* tops = nullptr;  // of each row, a vector of largest scores; null: the sums are stored as they are
  bool first = true;      // the tops hold nothing yet
  float scale = 1;        // with masks only
  int masks = 0;
  AddedMask mask[2] = {};
};

struct ScoreTiles {
  const float* const* queries = nullptr;
  const float* panel = nullptr;  // of keys; its rows follow each other
  int64_t size = 0;              // words of a query
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t last_keys = 0;  // in the last vector
  int64_t column = 0;     // of the panel, in the masks
  ScoreFinish finish;
};

template <int MR, int NV>
HWY_INLINE void finish_scores(const ScoreTiles& t, int64_t row, PanelVec (&sum)[MR][NV]) {
  const PanelTag d;
  const ScoreFinish& f = t.finish;
  const auto tail = hn::FirstN(d, static_cast<size_t>(t.last_keys));
  const auto lowest = hn::Set(d, -std::numeric_limits<float>::infinity()), scale = hn::Set(d, f.scale);
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    for (int m = 0; m < f.masks; ++m) {
      const float* added = f.mask[m].data + f.mask[m].rows[row + r] + t.column;
#pragma GCC unroll 16
      for (int v = 0; v < NV; ++v) {
        const float* from = added + v * panel_lanes();
        const PanelVec mask = v + 1 < NV ? hn::LoadU(d, from) : masked_load(tail, d, from);
        sum[r][v] = m == 0 ? hn::MulAdd(sum[r][v], scale, mask) : hn::Add(sum[r][v], mask);
      }
    }
    float* top = f.tops + (row + r) * panel_lanes();
    PanelVec best = f.first ? lowest : hn::Load(d, top);
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v)
      best = max_or_second(v + 1 < NV ? sum[r][v] : hn::IfThenElse(tail, sum[r][v], lowest), best);
    hn::Store(best, d, top);
  }
}

// out[r, :] = queries[r] · panel, a panel of NV vectors.
template <class Word, int MR, int NV>
HWY_NOINLINE void score_tile(const ScoreTiles& t, int64_t row) {
  const PanelTag d;
  const float* a[MR];
  PanelVec sum[MR][NV];
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
    a[r] = t.queries[row + r];
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[r][v] = hn::Zero(d);
  }
  panel_product<Word, MR, NV>(a, t.panel, NV * panel_lanes(), t.size, sum);
  if (t.finish.tops) finish_scores<MR, NV>(t, row, sum);
  float* out = t.out + row * t.out_stride;
#pragma GCC unroll 16
  for (int r = 0; r < MR; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) hn::Store(sum[r][v], d, out + r * t.out_stride + v * panel_lanes());
  }
}

struct ValueTile {
  const float* p = nullptr;  // words of probabilities, row after row
  int64_t p_stride = 0;
  const float* v = nullptr;  // values, padded to whole vectors
  int64_t v_stride = 0;
  int64_t depth = 0;
  float* sums = nullptr;
  int64_t sums_stride = 0;
  bool add = false;               // to what the sums hold …
  bool rescale = false;           // … times the row's factor
  const float* factor = nullptr;  // of each row
  // Where the last sums go, times `inverse` of the row: row r at result + result_rows[r]. Null: to the sums.
  float* result = nullptr;
  const int64_t* result_rows = nullptr;
  const float* inverse = nullptr;
  int64_t last_columns = 0;  // of the last vector
};

template <class Word, int MR, int NV>
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
  panel_product<Word, MR, NV>(a, t.v, t.v_stride, t.depth, sum);
  if (t.result) {
    const auto tail = hn::FirstN(d, static_cast<size_t>(t.last_columns));
#pragma GCC unroll 16
    for (int r = 0; r < MR; ++r) {
      const auto inverse = hn::Set(d, t.inverse[row + r]);
      float* to = t.result + t.result_rows[row + r];
#pragma GCC unroll 16
      for (int v = 0; v + 1 < NV; ++v) hn::StoreU(hn::Mul(sum[r][v], inverse), d, to + v * panel_lanes());
      masked_store(hn::Mul(sum[r][NV - 1], inverse), tail, d, to + (NV - 1) * panel_lanes());
    }
    return;
  }
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
  constexpr int64_t most = kPanelTile.rows[NV - 1];
  const int64_t tiles = (rows + most - 1) / most;
  for (int64_t i = 0, row = 0; i < tiles; ++i) {
    const int64_t height = (rows - row + tiles - i - 1) / (tiles - i);
    of_height<NV, kPanelTile.rows[NV - 1]>(height, [&](auto mr) HWY_ATTR { call(mr, row); });
    row += height;
  }
}

template <class Word, int NV>
HWY_INLINE void score_tiles_of(int64_t rows, const ScoreTiles& t, Ahead& ahead) {
  for_tiles<NV>(rows, [&](auto mr, int64_t row) HWY_ATTR {
    score_tile<Word, decltype(mr)::value, NV>(t, row);
    ahead.fetch();
  });
}

template <class Word>
HWY_INLINE void score_tiles(int64_t vectors, int64_t rows, const ScoreTiles& t, Ahead& ahead) {
  if constexpr (kPanelVectors == 4) {
    if (vectors == 4) return score_tiles_of<Word, 4>(rows, t, ahead);
    if (vectors == 3) return score_tiles_of<Word, 3>(rows, t, ahead);
  }
  if (vectors == 2) return score_tiles_of<Word, 2>(rows, t, ahead);
  score_tiles_of<Word, 1>(rows, t, ahead);
}

template <class Word, int NV>
HWY_INLINE void value_tiles_of(int64_t rows, const ValueTile& t, Ahead& ahead) {
  for_tiles<NV>(rows, [&](auto mr, int64_t row) HWY_ATTR {
    value_tile<Word, decltype(mr)::value, NV>(t, row);
    ahead.fetch();
  });
}

template <class Word>
HWY_INLINE void value_tiles(int64_t vectors, int64_t rows, const ValueTile& t, Ahead& ahead) {
  if constexpr (kPanelVectors == 4) {
    if (vectors == 4) return value_tiles_of<Word, 4>(rows, t, ahead);
    if (vectors == 3) return value_tiles_of<Word, 3>(rows, t, ahead);
  }
  if (vectors == 2) return value_tiles_of<Word, 2>(rows, t, ahead);
  value_tiles_of<Word, 1>(rows, t, ahead);
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
