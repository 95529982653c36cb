// The loops for e^-(a - b) of integers, which a sum of exponentials of integers is made of: see tile_kernels.h.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/tile_distances.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/pointwise/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;
using Whole = hn::RebindToUnsigned<Tag>;
constexpr int64_t lanes = HWY_LANES(float);

#if CAMSHAFT_TARGET_IS_AVX512
// Of 128 whole numbers, in registers.
struct Exponentials {
  Vec table[8];

  Exponentials() {
    static const std::array<float, 128> values = [] {
      std::array<float, 128> all{};
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(std::exp(-static_cast<double>(i)));
      return all;
    }();
    for (int v = 0; v < 8; ++v) table[v] = hn::LoadU(Tag(), values.data() + v * lanes);
  }

  HWY_INLINE Vec operator()(hn::Vec<Whole> distance) const {
    Vec quarter[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) quarter[q] = look_up_32_floats(table[2 * q], table[2 * q + 1], distance);
    const auto bit = [&](uint32_t of)
                         HWY_ATTR { return hn::RebindMask(Tag(), hn::TestBit(distance, hn::Set(Whole(), of))); };
    const auto is_odd = bit(32);
    const Vec near = hn::IfThenElse(is_odd, quarter[1], quarter[0]),
              far = hn::IfThenElse(is_odd, quarter[3], quarter[2]);
    return hn::IfThenElse(bit(64), far, near);
  }
};
#else
struct Exponentials {
  HWY_INLINE Vec operator()(hn::Vec<Whole> distance) const {
    const hn::RebindToSigned<Tag> di;
    return exp_f32(Tag(), hn::Neg(hn::ConvertTo(Tag(), hn::BitCast(di, distance))));
  }
};
#endif

// Differences of 32 and of 64 bits, with what is too large for any exponential as 127: e^-104 is less than half of the
// smallest f32.
template <class V>
HWY_INLINE V bounded_difference(V a, V b) {
  return hn::Min(hn::Sub(a, b), hn::Set(hn::DFromV<V>(), 127));
}
template <bool kOneA, bool kOneB>
HWY_INLINE hn::Vec<Whole> distance(const uint32_t* a, const uint32_t* b) {
  const Whole d;
  return bounded_difference(kOneA ? hn::Set(d, *a) : hn::LoadU(d, a), kOneB ? hn::Set(d, *b) : hn::LoadU(d, b));
}
template <bool kOneA, bool kOneB>
HWY_INLINE hn::Vec<Whole> distance(const uint64_t* a, const uint64_t* b) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(Whole(), static_cast<uint32_t>(*a - *b < 127 ? *a - *b : 127));
#else
  const hn::ScalableTag<uint64_t> d;
  const hn::Half<Whole> half;
  const auto of = [&](int64_t i) HWY_ATTR {
    const auto x = kOneA ? hn::Set(d, *a) : hn::LoadU(d, a + i), y = kOneB ? hn::Set(d, *b) : hn::LoadU(d, b + i);
    return hn::TruncateTo(half, bounded_difference(x, y));
  };
  return hn::Combine(Whole(), of(lanes / 2), of(0));
#endif
}

template <class T, bool kOneA, bool kOneB>
void exp_distances(const T* a, const T* b, float* out, int64_t n) {
  const Tag d;
  const Exponentials exponentials;
  int64_t i = 0;
#pragma GCC unroll 4
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(exponentials(distance<kOneA, kOneB>(kOneA ? a : a + i, kOneB ? b : b + i)), d, out + i);
  if (i == n) return;
  T x[lanes] = {*a}, y[lanes] = {*b};
  float e[lanes];
  const auto left = static_cast<size_t>(n - i);
  if constexpr (!kOneA) std::memcpy(x, a + i, left * sizeof(T));
  if constexpr (!kOneB) std::memcpy(y, b + i, left * sizeof(T));
  hn::StoreU(exponentials(distance<kOneA, kOneB>(x, y)), d, e);
  std::memcpy(out + i, e, left * sizeof(float));
}

template <class T>
void exp_distance(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto *a = static_cast<const T*>(in[0]), *b = static_cast<const T*>(in[1]);
  auto* o = static_cast<float*>(out);
  if (n == 1) uniform = 0;  // one element either way
  switch (uniform & 3) {
    case 0:
      return exp_distances<T, false, false>(a, b, o, n);
    case 1:
      return exp_distances<T, true, false>(a, b, o, n);
    case 2:
      return exp_distances<T, false, true>(a, b, o, n);
    default:
      return exp_distances<T, true, true>(a, b, o, n);
  }
}

TileKernel distance_kernel(FusedFunction function) {
  switch (function) {
    case FusedFunction::exp_distance_32:
      return exp_distance<uint32_t>;
    case FusedFunction::exp_distance_64:
      return exp_distance<uint64_t>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(distance_kernel);

TileKernel find_distance_kernel(FusedFunction function) {
  return HWY_DYNAMIC_DISPATCH(distance_kernel)(function);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
