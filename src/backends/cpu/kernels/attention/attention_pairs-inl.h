// Attention's operands and probabilities as pairs of bf16 (bf16_pairs.h): queries, keys and values are rounded as they
// are packed, probabilities as they are computed. Included once per instruction set.
#if defined(CAMSHAFT_CPU_ATTENTION_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ATTENTION_PAIRS_INL_H
#undef CAMSHAFT_CPU_ATTENTION_PAIRS_INL_H
#else
#define CAMSHAFT_CPU_ATTENTION_PAIRS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/attention/attention_blocks.h"
#include "backends/cpu/kernels/attention/attention_pack-inl.h"
#include "backends/cpu/kernels/gemm/word_product-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/pointwise/vector_math-inl.h"

#if CAMSHAFT_HAS_BF16_PAIRS
HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE const float* pack_query(PairWords, const AttentionArgs& a, const float* query, int64_t r,
                                   const AttentionScratch& scratch) {
  float* words = scratch.queries + r * a.size;
  round_row(joined(query, a.query.column, a.size, scratch.rows), a.size, words);
  return words;
}

// The columns of a panel are of words.
HWY_INLINE void pack_keys(PairWords, const AttentionArgs& a, int64_t o, const AttentionScratch& scratch) {
  const PanelTag d;
  const int64_t width = panel_width(), lanes = panel_lanes(), words = (a.size + 1) / 2;
  int64_t places[kPanelVectors * HWY_LANES(float)];
  for (int64_t k = 0; k < width; ++k) places[k] = k * words;
  float* out = scratch.keys;
  for (int64_t first = 0; first < a.keys; first += width, out += width * words) {
    const int64_t count = std::min(width, a.keys - first), stored = AttentionBlocks::round_up(count, lanes);
    for (int64_t k = 0; k < count; ++k) {
      const float* key = a.key.data + a.key.outer[o] + a.key.rows[first + k];
      round_row(joined(key, a.key.column, a.size, scratch.rows), a.size, scratch.panel + places[k]);
    }
    if (count < stored)
      for (int64_t i = 1; i <= words; ++i) hn::Store(hn::Zero(d), d, out + i * stored - lanes);
    pack_columns(scratch.panel, places, count, words, stored, out);
  }
}

// Words of two rows; an odd last one has zeros beside it.
HWY_INLINE void pack_values(PairWords, const AttentionArgs& a, int64_t o, int64_t columns,
                            const AttentionScratch& scratch) {
  const PanelTag d;
  const hn::RebindToUnsigned<PanelTag> d32;
  const hn::Repartition<uint16_t, PanelTag> d16;
  const hn::Half<decltype(d16)> half;
  const float* base = a.value.data + a.value.outer[o];
  float* out = scratch.values;
  for (int64_t k = 0; k < a.keys; k += 2, out += columns) {
    const bool two = k + 1 < a.keys;
    const float* low = joined(base + a.value.rows[k], a.value.column, a.value_size, scratch.rows);
    const float* high =
        two ? joined(base + a.value.rows[k + 1], a.value.column, a.value_size, scratch.rows + columns) : nullptr;
    for (int64_t i = 0; i < columns; i += panel_lanes()) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(panel_lanes(), a.value_size - i)));
      const auto rows = hn::BitCast(
          d16, round_to_pairs(masked_load(mask, d, low + i), two ? masked_load(mask, d, high + i) : hn::Zero(d)));
      const auto lows = hn::PromoteTo(d32, hn::LowerHalf(half, rows));
      const auto highs = hn::PromoteTo(d32, hn::UpperHalf(half, rows));
      hn::Store(hn::BitCast(d, hn::Or(lows, hn::ShiftLeft<16>(highs))), d, out + i);
    }
  }
}

// power_of_two_nonpositive() with a relative error of 7.5e-5, a 26th of what rounding to bf16 adds.
template <class D, class V>
HWY_INLINE V rough_power_of_two_nonpositive(D d, V x) {
  x = hn::IfThenElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Set(d, -200.0f), x);  // no subnormal powers
  const V n = hn::Round(x), f = hn::Sub(x, n);
  V p = hn::MulAdd(hn::Set(d, 5.517166492e-02f), f, hn::Set(d, 2.426111219e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.932609862e-01f));
  p = hn::MulAdd(p, f, hn::Set(d, 9.999280736e-01f));
  return times_power_of_two(p, n);
}

// The words of the exponentials take the first half of a row. Sums are of what they were before rounding.
template <bool kMultipliesFirst>
HWY_NOINLINE void exponentials_of(PairWords, float* x, int64_t stride, int64_t rows, int64_t n, float factor,
                                  const float* shifts, float* sums) {
  const PanelTag d;
  constexpr int64_t lanes = panel_lanes();
  const auto by = hn::Set(d, factor);
  for (int64_t r = 0; r < rows; ++r, x += stride) {
    const auto shift = hn::Set(d, kMultipliesFirst ? shifts[r] * factor : shifts[r]);
    const auto exponential = [&](int64_t i) HWY_ATTR {
      const auto v = hn::Load(d, x + i);
      return rough_power_of_two_nonpositive(
          d, kMultipliesFirst ? hn::MulSub(v, by, shift) : hn::Mul(hn::Sub(v, shift), by));
    };
    auto low_sum = hn::Zero(d), high_sum = low_sum;
    int64_t i = 0;
    for (; i + 2 * lanes <= n; i += 2 * lanes) {
      const auto low = exponential(i), high = exponential(i + lanes);
      hn::Store(round_to_pairs(low, high), d, x + i / 2);
      low_sum = hn::Add(low_sum, low);
      high_sum = hn::Add(high_sum, high);
    }
    if (i < n) {
      const auto part = [&](int64_t at) HWY_ATTR {
        if (at >= n) return hn::Zero(d);
        return hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(std::min(lanes, n - at))), exponential(at));
      };
      const auto low = part(i), high = part(i + lanes);
      hn::Store(round_to_pairs(low, high), d, x + i / 2);
      low_sum = hn::Add(low_sum, low);
      high_sum = hn::Add(high_sum, high);
    }
    hn::Store(hn::Add(low_sum, high_sum), d, sums + r * lanes);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();
#endif

#endif
