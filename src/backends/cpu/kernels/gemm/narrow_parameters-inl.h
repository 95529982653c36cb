// Scales and zero points of blocks of weights of few bits (narrow_weights.h). Included once per instruction set.
#if defined(CAMSHAFT_CPU_NARROW_PARAMETERS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_NARROW_PARAMETERS_INL_H
#undef CAMSHAFT_CPU_NARROW_PARAMETERS_INL_H
#else
#define CAMSHAFT_CPU_NARROW_PARAMETERS_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/gemm/narrow_gemm.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {

/// The zero points of a block. `at`: of its first column.
template <int NV>
HWY_INLINE void block_zeros(const NarrowZeros& zeros, int64_t at,
                            hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<float>> (&out)[NV]) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const hn::RebindToSigned<decltype(d)> di;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int v = 0; v < NV; ++v) {
    auto zero = hn::Set(d, zeros.all);
    if (zeros.bytes) zero = hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(bytes, zeros.bytes + at + v * lanes)));
    if (zeros.floats) zero = hn::Add(zero, hn::LoadU(d, zeros.floats + at + v * lanes));
    out[v] = zero;
  }
}

/// Its scales.
template <int NV>
HWY_INLINE void block_scales(const NarrowGemm& args, int64_t at,
                             hwy::HWY_NAMESPACE::Vec<hwy::HWY_NAMESPACE::ScalableTag<float>> (&out)[NV]) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> halves;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  const auto* half = reinterpret_cast<const hwy::float16_t*>(args.half_scales);
  for (int v = 0; v < NV; ++v)
    out[v] =
        half ? hn::PromoteTo(d, hn::LoadU(halves, half + at + v * lanes)) : hn::LoadU(d, args.scales + at + v * lanes);
}

}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
