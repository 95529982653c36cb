// Sums and largest lanes of many vectors at once. Included once per instruction set.
#if defined(CAMSHAFT_CPU_JOIN_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_JOIN_LANES_INL_H
#undef CAMSHAFT_CPU_JOIN_LANES_INL_H
#else
#define CAMSHAFT_CPU_JOIN_LANES_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/pointwise/vector_math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Largest {
  template <class D, class V>
  static HWY_INLINE V join(D, V a, V b) {
    return max_or_second(a, b);
  }
};
struct Sum {
  template <class D, class V>
  static HWY_INLINE V join(D, V a, V b) {
    return hn::Add(a, b);
  }
};

// out[r] = the lanes of row r's vector joined. Four rows at a time: neighbouring lanes of two rows change places until
// a vector has four rows' partial results side by side. Row by row it took a tenth of the attention of 49 keys. Vectors
// are aligned; whole fours are read and written.
template <class Join>
HWY_INLINE void join_lanes(const float* vectors, int64_t rows, float* out) {
#if HWY_TARGET == HWY_SCALAR
  std::copy_n(vectors, rows, out);
#else
  const hn::ScalableTag<float> d;
  constexpr int64_t lanes = HWY_LANES(float);
  const hn::Repartition<double, decltype(d)> pairs;
  const hn::FixedTag<float, 4> four;
  for (int64_t r = 0; r < rows; r += 4, vectors += 4 * lanes) {
    const auto r0 = hn::Load(d, vectors), r1 = hn::Load(d, vectors + lanes);
    const auto r2 = hn::Load(d, vectors + 2 * lanes), r3 = hn::Load(d, vectors + 3 * lanes);
    const auto a = Join::join(d, hn::InterleaveLower(d, r0, r1), hn::InterleaveUpper(d, r0, r1));
    const auto b = Join::join(d, hn::InterleaveLower(d, r2, r3), hn::InterleaveUpper(d, r2, r3));
    const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b));
    const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, a), hn::BitCast(pairs, b));
    auto v = Join::join(d, hn::BitCast(d, low), hn::BitCast(d, high));
    if constexpr (lanes >= 16) v = Join::join(d, v, hn::SwapAdjacentBlocks(v));
    if constexpr (lanes >= 8) v = Join::join(d, v, hn::ConcatLowerUpper(d, v, v));
    if constexpr (lanes == 16) {
      hn::Store(hn::LowerHalf(hn::LowerHalf(v)), four, out + r);
    } else if constexpr (lanes == 8) {
      hn::Store(hn::LowerHalf(v), four, out + r);
    } else {
      hn::Store(v, four, out + r);
    }
  }
#endif
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
