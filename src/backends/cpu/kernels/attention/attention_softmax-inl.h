// The softmax of a block of scores: rows padded to whole vectors, whose excess is not looked at. Included once per
// instruction set.
#if defined(CAMSHAFT_CPU_ATTENTION_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_ATTENTION_SOFTMAX_INL_H
#undef CAMSHAFT_CPU_ATTENTION_SOFTMAX_INL_H
#else
#define CAMSHAFT_CPU_ATTENTION_SOFTMAX_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cpu/kernels/attention/attention_blocks.h"
#include "backends/cpu/kernels/gemm/word_product-inl.h"
#include "backends/cpu/kernels/join_lanes-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/pointwise/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A mask along one row: as many elements as keys, or one for all.
struct MaskRow {
  const float* added;
  const uint8_t* kept;
  float masked;
  bool one;
};

// `count` elements, and anything behind them in the last vector of a row.
template <class D, class T>
HWY_INLINE hn::Vec<D> load_some(D d, const T* from, size_t count) {
  if (HWY_LIKELY(count == hn::Lanes(d))) return hn::LoadU(d, from);
  HWY_ALIGN T part[hn::MaxLanes(D())] = {};
  std::copy_n(from, std::min<size_t>(count, hn::MaxLanes(D())), part);  // the bound is for GCC, which cannot know it
  return hn::Load(d, part);
}

// x = scale · x, capped where softcap is not 0, then each mask; returns the largest. x is padded to whole vectors,
// whose excess is not looked at.
inline HWY_NOINLINE float mask_scores(float* x, int64_t n, float scale, float softcap, const MaskRow* masks,
                                      int64_t mask_count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::Rebind<int32_t, decltype(d)> words;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool capped = softcap > 0;
  const auto factor = hn::Set(d, capped ? scale / softcap : scale), cap = hn::Set(d, softcap);
  auto best = hn::Set(d, kLowest);
  for (int64_t i = 0; i < n; i += lanes) {
    const auto count = static_cast<size_t>(std::min(lanes, n - i));
    auto v = hn::Mul(hn::Load(d, x + i), factor);
    if (capped) v = hn::Mul(cap, tanh_f32(d, v));
    for (int64_t m = 0; m < mask_count; ++m) {
      const MaskRow& mask = masks[m];
      if (mask.added) {
        v = hn::Add(v, mask.one ? hn::Set(d, *mask.added) : load_some(d, mask.added + i, count));
      } else {
        const auto kept = mask.one ? hn::Set(bytes, *mask.kept) : load_some(bytes, mask.kept + i, count);
        const auto keeps = hn::RebindMask(d, hn::Ne(hn::PromoteTo(words, kept), hn::Zero(words)));
        v = hn::IfThenElse(keeps, v, hn::Set(d, mask.masked));
      }
    }
    hn::Store(v, d, x + i);
    if (static_cast<int64_t>(count) < lanes) v = hn::IfThenElse(hn::FirstN(d, count), v, hn::Set(d, kLowest));
    best = max_or_second(v, best);
  }
  return hn::GetLane(hn::MaxOfLanes(d, best));
}

// 2^x for x <= 0 (slightly more by rounding), with a relative error of 2.1e-7; 0 below 2^-126 or a little less, NaN of
// NaN. Leaner than exp_nonpositive_f32: the caller multiplies by log2(e) anyway, and what vanishes needs no comparison.
template <class D, class V>
HWY_INLINE V power_of_two_nonpositive(D d, V x) {
  const auto polynomial = [d](V f) HWY_ATTR {
    V p = hn::Set(d, 1.327645266e-03f);
    p = hn::MulAdd(p, f, hn::Set(d, 9.675540030e-03f));
    p = hn::MulAdd(p, f, hn::Set(d, 5.550713465e-02f));
    p = hn::MulAdd(p, f, hn::Set(d, 2.402212024e-01f));
    p = hn::MulAdd(p, f, hn::Set(d, 6.931469440e-01f));
    return hn::MulAdd(p, f, hn::Set(d, 1.000000119f));
  };
  if constexpr (kTarget.powers_of_two) {
    // Attention as a whole is 2 % faster with it. No power is subnormal: Intel's processors take some 150 cycles for a
    // product with such a number, of which masks of -100, as Swin's, make nothing else. -inf, whose distance from
    // itself is NaN, is replaced with them; NaN stays.
    x = hn::IfThenElse(hn::Lt(x, hn::Set(d, -126.0f)), hn::Set(d, -200.0f), x);
    const V n = hn::Round(x);
    return times_power_of_two(polynomial(hn::Sub(x, n)), n);
  } else {
    const hn::RebindToSigned<D> di;
    // Adding 1.5 · 2^23 rounds to an integer n; with 127 more the low bits are the exponent field of 2^n, 0 for n =
    // -127.
    const V magic = hn::Set(d, 12582912.0f + 127.0f);
    x = max_or_second(hn::Set(d, -127.0f), x);
    const V sum = hn::Add(x, magic);
    const V p = polynomial(hn::Sub(x, hn::Sub(sum, magic)));
    return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, sum))));
  }
}

// x = 2^(factor · (x - shift)), for each row, two at a time, and their sums: a vector a row. As factor · x - factor ·
// shift it is one operation, where the products are small enough (masks of -3e38 times a factor overflow).
template <bool kMultipliesFirst>
HWY_NOINLINE void exponentials_of(FloatWords, float* x, int64_t stride, int64_t rows, int64_t n, float factor,
                                  const float* shifts, float* sums) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto by = hn::Set(d, factor);
  const auto exponential = [&](const float* from, hn::Vec<decltype(d)> shift) HWY_ATTR {
    const auto v = hn::Load(d, from);
    return power_of_two_nonpositive(d, kMultipliesFirst ? hn::MulSub(v, by, shift) : hn::Mul(hn::Sub(v, shift), by));
  };
  const auto tail = hn::FirstN(d, static_cast<size_t>(n % lanes));
  for (int64_t r = 0; r < rows; r += 2) {
    const bool two = r + 1 < rows;
    float *x0 = x + r * stride, *x1 = x0 + stride;
    const float first = shifts[r], second = shifts[two ? r + 1 : r];
    const auto t0 = hn::Set(d, kMultipliesFirst ? first * factor : first);
    const auto t1 = hn::Set(d, kMultipliesFirst ? second * factor : second);
    auto s0 = hn::Zero(d), s1 = s0;
    int64_t i = 0;
    if (two) {
      for (; i + lanes <= n; i += lanes) {
        const auto e0 = exponential(x0 + i, t0);
        const auto e1 = exponential(x1 + i, t1);
        hn::Store(e0, d, x0 + i);
        hn::Store(e1, d, x1 + i);
        s0 = hn::Add(s0, e0);
        s1 = hn::Add(s1, e1);
      }
    } else {
      for (; i + lanes <= n; i += lanes) {
        const auto e = exponential(x0 + i, t0);
        hn::Store(e, d, x0 + i);
        s0 = hn::Add(s0, e);
      }
    }
    if (i < n) {
      const auto e0 = exponential(x0 + i, t0);
      hn::Store(e0, d, x0 + i);
      s0 = hn::Add(s0, hn::IfThenElseZero(tail, e0));
      if (two) {
        const auto e1 = exponential(x1 + i, t1);
        hn::Store(e1, d, x1 + i);
        s1 = hn::Add(s1, hn::IfThenElseZero(tail, e1));
      }
    }
    hn::Store(s0, d, sums + r * lanes);
    if (two) hn::Store(s1, d, sums + (r + 1) * lanes);
  }
}

// What a block of rows, kAttentionRows at most, has seen of its keys so far.
struct RowTotals {
  float* largest;  // score of each row
  float* total;    // of the exponentials, of which the largest is 1
  float* factor;   // of this block's: what sums of values before it are multiplied by
  float* vectors;  // one a row, for the time of a call
};

// Exponents below this may be rounded before the largest is subtracted: 1/32 at most, the same for a whole row. From
// 2^31 on it would be more than floats have.
inline constexpr float kMostExponent = 1 << 20;

// Scores, times `scale`, become exponentials, and the totals those of all keys up to these. `tops` has the largest
// scores of the rows here, and is changed; `first`: there were no keys before. `scaled`: the scale is not yet in them.
template <class Word>
HWY_INLINE void add_exponentials(float* scores, int64_t stride, int64_t rows, int64_t keys, float scale, bool scaled,
                                 bool first, float* tops, const RowTotals& t) {
  HWY_ALIGN float shifts[kAttentionRows] = {}, sums[kAttentionRows];
  const float factor = scale * 1.442695041f;
  bool multiplies_first = scaled;
  for (int64_t r = 0; r < rows; ++r) {
    if (!first) tops[r] = std::max(t.largest[r], tops[r]);
    shifts[r] = tops[r] == kLowest ? 0 : tops[r];
    multiplies_first &= std::abs(shifts[r] * factor) < kMostExponent;
  }
  const auto exponentials = [&](auto order) HWY_ATTR {
    exponentials_of<order.value>(Word(), scores, stride, rows, keys, factor, shifts, t.vectors);
  };
  multiplies_first ? exponentials(std::true_type()) : exponentials(std::false_type());
  join_lanes<Sum>(t.vectors, rows, sums);
  for (int64_t r = 0; r < rows; ++r) {
    if (!first) {
      // As rounded in the exponentials, of this block and the last.
      const float moved =
          multiplies_first ? factor * t.largest[r] - factor * tops[r] : factor * (t.largest[r] - tops[r]);
      t.factor[r] = t.largest[r] == tops[r] ? 1 : std::exp2(moved);
      sums[r] += t.total[r] * t.factor[r];
    }
    t.total[r] = sums[r];
    t.largest[r] = tops[r];
  }
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
