// How the vectors of a product's words (gemm.h, Words) are multiplied and added up. Included once per instruction set.
#if defined(CAMSHAFT_CPU_WORD_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_WORD_PRODUCT_INL_H
#undef CAMSHAFT_CPU_WORD_PRODUCT_INL_H
#else
#define CAMSHAFT_CPU_WORD_PRODUCT_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct FloatWords {
  static constexpr int elements = 1;
  template <class V>
  static HWY_INLINE V multiply_add(V a, V b, V sum) {
    return hn::MulAdd(a, b, sum);
  }
};

#if CAMSHAFT_HAS_BF16_PAIRS
/// For machines that have_bf16_pairs() alone.
struct PairWords {
  static constexpr int elements = 2;
  template <class V>
  static HWY_INLINE V multiply_add(V a, V b, V sum) {
    return multiply_add_pairs(a, b, sum);
  }
};

/// The words of k floats; the last pair of an odd number is filled up with 0.
HWY_INLINE void round_row(const float* from, int64_t k, float* words) {
  const hn::FixedTag<float, 16> d;
  int64_t i = 0;
  for (; i + 32 <= k; i += 32)
    hn::StoreU(round_to_pairs(hn::LoadU(d, from + i), hn::LoadU(d, from + i + 16)), d, words + i / 2);
  if (i == k) return;
  const auto part = [&](int64_t at) HWY_ATTR {
    const auto count = static_cast<size_t>(std::clamp<int64_t>(k - at, 0, 16));
    return count == 0 ? hn::Zero(d) : masked_load(hn::FirstN(d, count), d, from + at);
  };
  const auto mask = hn::FirstN(d, static_cast<size_t>((k - i + 1) / 2));
  masked_store(round_to_pairs(part(i), part(i + 16)), mask, d, words + i / 2);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
