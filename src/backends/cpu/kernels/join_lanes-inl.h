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
// a vector has four rows' partial results side by side, two of them of 64 bits. Row by row it took a tenth of the
// attention of 49 keys. Vectors are aligned; whole fours are read and written.
template <class Join, class T>
HWY_INLINE void join_lanes(const T* vectors, int64_t rows, T* out) {
#if HWY_TARGET == HWY_SCALAR
  std::copy_n(vectors, rows, out);
#else
  const hn::ScalableTag<T> d;
  constexpr int64_t lanes = HWY_LANES(T), block = 16 / sizeof(T), blocks = lanes / block;
  const hn::FixedTag<T, block> one;
  const auto neighbours = [&](const T* from) HWY_ATTR {
    const auto r0 = hn::Load(d, from), r1 = hn::Load(d, from + lanes);
    return Join::join(d, hn::InterleaveLower(d, r0, r1), hn::InterleaveUpper(d, r0, r1));
  };
  for (int64_t r = 0; r < rows; r += block, vectors += block * lanes) {
    auto v = neighbours(vectors);
    if constexpr (block == 4) {
      const hn::Repartition<double, decltype(d)> pairs;
      const auto a = hn::BitCast(pairs, v), b = hn::BitCast(pairs, neighbours(vectors + 2 * lanes));
      v = Join::join(d, hn::BitCast(d, hn::InterleaveLower(pairs, a, b)),
                     hn::BitCast(d, hn::InterleaveUpper(pairs, a, b)));
    }
    if constexpr (blocks >= 4) v = Join::join(d, v, hn::SwapAdjacentBlocks(v));
    if constexpr (blocks >= 2) v = Join::join(d, v, hn::ConcatLowerUpper(d, v, v));
    if constexpr (blocks == 4) {
      hn::Store(hn::LowerHalf(hn::LowerHalf(v)), one, out + r);
    } else if constexpr (blocks == 2) {
      hn::Store(hn::LowerHalf(v), one, out + r);
    } else {
      hn::Store(v, one, out + r);
    }
  }
#endif
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
