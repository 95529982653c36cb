// Products of few columns, as dot products: the lanes of a vector are steps of the sum, not columns, most of which
// would not exist (a classifier of 2 classes, 9 sub-pixels). Included once per instruction set, by gemm_core.cpp.
#if defined(CAMSHAFT_CPU_GEMM_DOTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_GEMM_DOTS_INL_H
#undef CAMSHAFT_CPU_GEMM_DOTS_INL_H
#else
#define CAMSHAFT_CPU_GEMM_DOTS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/gemm_dots.h"
#include "backends/cpu/kernels/gemm/gemm_tile.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

#if HWY_TARGET != HWY_SCALAR  // which has no idle lanes
HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace dots {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;
inline constexpr int64_t kLanes = static_cast<int64_t>(HWY_LANES(float));

/// The weights by columns: [column][tap][steps rounded up to vectors], zeros behind a tap's steps.
struct Columns {
  const float* weights;
  int64_t taps, depth;
  int64_t tap_stride() const { return (depth + kLanes - 1) / kLanes * kLanes; }
  int64_t column_stride() const { return taps * tap_stride(); }
};

// The sums of four vectors' lanes, as four lanes.
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> four_sums(Vec a, Vec b, Vec c, Vec e) {
  const Tag d;
  const hn::Repartition<double, Tag> wide;
  // Of each block of 128 bits: [a0 + a2, b0 + b2, a1 + a3, b1 + b3], and then [a, b, c, e].
  const Vec ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const Vec ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto ab2 = hn::BitCast(wide, ab), ce2 = hn::BitCast(wide, ce);
  const Vec low = hn::BitCast(d, hn::InterleaveLower(wide, ab2, ce2));
  const Vec high = hn::BitCast(d, hn::InterleaveUpper(wide, ab2, ce2));
  const Vec sums = hn::Add(low, high);
  const hn::CappedTag<float, 4> four;
#if HWY_MAX_BYTES == 64
  const hn::Half<Tag> half;
  const auto eight = hn::Add(hn::LowerHalf(half, sums), hn::UpperHalf(half, sums));
  return hn::Add(hn::LowerHalf(four, eight), hn::UpperHalf(four, eight));
#elif HWY_MAX_BYTES == 32
  return hn::Add(hn::LowerHalf(four, sums), hn::UpperHalf(four, sums));
#else
  (void)four;
  return sums;
#endif
}

// GCC would take x from memory for each of its multiplications: 27 loads for 24 of them instead of 11.
HWY_INLINE Vec in_register(Vec x) {
  keep_in_register(x);
  return x;
}

/// Sums of P rows x C columns, to sums[row * C + column]. Tap t of row r starts at rows[t * tap_stride + r].
template <int P, int C>
HWY_INLINE void tile(const Columns& w, const float* weights, const float* const* rows, int64_t tap_stride,
                     float* sums) {
  static_assert(P * C % 4 == 0);
  const Tag d;
  Vec sum[P * C];
#pragma GCC unroll 32
  for (int i = 0; i < P * C; ++i) sum[i] = hn::Zero(d);
  const int64_t whole = w.depth / kLanes * kLanes, column_stride = w.column_stride();
  const auto mask = hn::FirstN(d, static_cast<size_t>(w.depth - whole));
  for (int64_t t = 0; t < w.taps; ++t, rows += tap_stride, weights += w.tap_stride()) {
    const auto step = [&](int64_t k, auto&& load) HWY_ATTR {
      Vec wv[C];
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) wv[c] = hn::LoadU(d, weights + c * column_stride + k);
#pragma GCC unroll 8
      for (int r = 0; r < P; ++r) {
        const Vec x = in_register(load(rows[r] + k));
#pragma GCC unroll 8
        for (int c = 0; c < C; ++c) sum[r * C + c] = hn::MulAdd(x, wv[c], sum[r * C + c]);
      }
    };
    for (int64_t k = 0; k < whole; k += kLanes) step(k, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p); });
    if (whole < w.depth) step(whole, [&](const float* p) HWY_ATTR { return masked_load(mask, d, p); });
  }
  const hn::CappedTag<float, 4> four;
#pragma GCC unroll 8
  for (int i = 0; i < P * C; i += 4) hn::StoreU(four_sums(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]), four, sums + i);
}

// Rows and columns of a tile: about as many sums as there are registers for.
inline constexpr int64_t kMostRows = 8;

template <int C>
HWY_NOINLINE void columns_of_block(const Columns& w, int64_t first, const float* const* rows, int64_t tap_stride,
                                   int64_t n, float* sums) {
  constexpr int P = kTiles.dot_rows[C - 1];
  HWY_ALIGN float own[P * C];
  for (int64_t r = 0; r < kMostRows; r += P) {
    tile<P, C>(w, w.weights + first * w.column_stride(), rows + r, tap_stride, n == C ? sums + r * C : own);
    if (n == C) continue;
    for (int64_t i = 0; i < P; ++i)
      for (int64_t c = 0; c < C; ++c) sums[(r + i) * n + first + c] = own[i * C + c];
  }
}

// [kMostRows][n] sums. All rows can be read.
HWY_INLINE void block_sums(const Columns& w, int64_t n, const float* const* rows, int64_t tap_stride, float* sums) {
  int64_t first = 0;
  while (first < n) {
    // 5 columns are 3 and 2, 9 three times 3.
    const int64_t left = n - first, groups = (left + 3) / 4, columns = (left + groups - 1) / groups;
    if (columns == 4) columns_of_block<4>(w, first, rows, tap_stride, n, sums);
    if (columns == 3) columns_of_block<3>(w, first, rows, tap_stride, n, sums);
    if (columns == 2) columns_of_block<2>(w, first, rows, tap_stride, n, sums);
    if (columns == 1) columns_of_block<1>(w, first, rows, tap_stride, n, sums);
    first += columns;
  }
}

// `count` rows of n sums go to C through the epilogue; `bias` is repeated for each row, or null.
HWY_INLINE void finish(const Epilogue& e, const TileArgs& t, int64_t n, int64_t count, const float* bias,
                       const float* sums) {
  const Tag d;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const bool clamp = e.lo != -infinity || e.hi != infinity;
  const int64_t first = t.out_rows ? t.out_rows[0] : t.row0;
  // Rows of C are in order, so these follow each other if the last one is as far as that.
  const bool together = !t.out_rows || t.out_rows[count - 1] == first + count - 1;
  if (!together || t.ldc != n || (e.residual && e.residual_ld != n)) {
    for (int64_t r = 0; r < count; ++r) {
      const int64_t row = t.out_rows ? t.out_rows[r] : t.row0 + r;
      for (int64_t i = 0; i < n; ++i) {
        float v = sums[r * n + i];
        if (bias) v += bias[i];
        if (e.residual) v += e.residual[row * e.residual_ld + i];
        if (clamp) v = v < e.lo ? e.lo : v > e.hi ? e.hi : v;
        t.c[row * t.ldc + i] = v;
      }
    }
    return;
  }
  const auto lo = hn::Set(d, e.lo), hi = hn::Set(d, e.hi);
  for (int64_t i = 0; i < count * n; i += kLanes) {
    const int64_t left = std::min(kLanes, count * n - i), at = first * n + i;
    const auto mask = hn::FirstN(d, static_cast<size_t>(left));
    Vec v = hn::LoadU(d, sums + i);
    if (bias) v = hn::Add(v, hn::LoadU(d, bias + i));
    if (e.residual) v = hn::Add(v, masked_load(mask, d, e.residual + at));
    if (clamp) v = clamp_keeping_nan(v, lo, hi);
    if (left == kLanes)
      hn::StoreU(v, d, t.c + at);
    else
      masked_store(v, mask, d, t.c + at);
  }
}

}  // namespace dots
}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif
