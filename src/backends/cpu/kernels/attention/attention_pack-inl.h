// Where attention's operands are packed: keys as columns, values as rows of whole vectors. Included once per
// instruction set.
#if defined(CAMSHAFT_CPU_ATTENTION_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ATTENTION_PACK_INL_H
#undef CAMSHAFT_CPU_ATTENTION_PACK_INL_H
#else
#define CAMSHAFT_CPU_ATTENTION_PACK_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/attention/attention_blocks.h"
#include "backends/cpu/kernels/attention/attention_tile-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE int64_t panel_width() {
  return kPanelVectors * panel_lanes();
}

#if HWY_MAX_BYTES == 64
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
inline HWY_NOINLINE void pack_columns(const float* base, const int64_t* rows, int64_t count, int64_t size,
                                      int64_t stored, float* out) {
  int64_t k = 0;
#if HWY_MAX_BYTES == 64
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

// Keys [first, first + count) as columns of a panel: element d of key k at out[d * stored + k].
HWY_INLINE void pack_key_panel(const AttentionArgs& a, int64_t o, int64_t first, int64_t count, int64_t stored,
                               float* out) {
  const float* base = a.key.data + a.key.outer[o];
  const int64_t* rows = a.key.rows + first;
  if (count < stored) {
    const PanelTag tag;
    for (int64_t d = 1; d <= a.size; ++d) hn::Store(hn::Zero(tag), tag, out + d * stored - panel_lanes());
  }
  if (a.key.column == 1) {
    pack_columns(base, rows, count, a.size, stored, out);
    return;
  }
  for (int64_t d = 0; d < a.size; ++d) {
    const float* from = base + d * a.key.column;
    float* to = out + d * stored;
    if (a.key.row_step == 1) {
      std::memcpy(to, from + rows[0], static_cast<size_t>(count) * sizeof(float));
    } else {
      for (int64_t k = 0; k < count; ++k) to[k] = from[rows[k]];
    }
  }
}

HWY_INLINE void pack_keys(FloatWords, const AttentionArgs& a, int64_t o, const AttentionScratch& scratch) {
  const int64_t width = panel_width(), lanes = panel_lanes();
  for (int64_t k = 0; k < a.keys; k += width) {
    const int64_t count = std::min(width, a.keys - k);
    pack_key_panel(a, o, k, count, AttentionBlocks::round_up(count, lanes), scratch.keys + k * a.size);
  }
}

HWY_INLINE void copy_row(const float* from, int64_t step, int64_t count, float* to) {
  if (step == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
}

// The elements of a row as neighbours: in `copy`, where they are not.
HWY_INLINE const float* joined(const float* from, int64_t step, int64_t count, float* copy) {
  if (step == 1) return from;
  copy_row(from, step, count, copy);
  return copy;
}

// The words of row r of a block of queries.
HWY_INLINE const float* pack_query(FloatWords, const AttentionArgs& a, const float* query, int64_t r,
                                   const AttentionScratch& scratch) {
  return joined(query, a.query.column, a.size, scratch.queries + r * a.size);
}

HWY_INLINE void pack_values(FloatWords, const AttentionArgs& a, int64_t o, int64_t columns,
                            const AttentionScratch& scratch) {
  float* out = scratch.values;
  const float* base = a.value.data + a.value.outer[o];
  if (a.value.column == 1) {
    // Without a call for each row, of 32 to 128 floats.
    const PanelTag d;
    const int64_t whole = a.value_size / panel_lanes() * panel_lanes();
    const auto tail = hn::FirstN(d, static_cast<size_t>(a.value_size - whole));
    for (int64_t k = 0; k < a.keys; ++k, out += columns) {
      const float* from = base + a.value.rows[k];
      for (int64_t i = 0; i < whole; i += panel_lanes()) hn::Store(hn::LoadU(d, from + i), d, out + i);
      if (whole < columns) hn::Store(masked_load(tail, d, from + whole), d, out + whole);
    }
    return;
  }
  for (int64_t k = 0; k < a.keys; ++k, out += columns) {
    copy_row(base + a.value.rows[k], a.value.column, a.value_size, out);
    std::fill(out + a.value_size, out + columns, 0.0f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
