// Loads of a part of a vector. Included once per instruction set.
#if defined(CAMSHAFT_CPU_MASKED_LOAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_MASKED_LOAD_INL_H
#undef CAMSHAFT_CPU_MASKED_LOAD_INL_H
#else
#define CAMSHAFT_CPU_MASKED_LOAD_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

/// The lanes of `mask` from memory, zeros elsewhere; reads nothing outside the mask. (Highway's own MaskedLoad reads
/// the whole vector where the instruction set has no masks: past the end of a constant.)
template <class D, class M>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> masked_load(M mask, D d, const hwy::HWY_NAMESPACE::TFromD<D>* from) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  uint8_t bits[8] = {};
  hn::StoreMaskBits(d, mask, bits);
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())] = {};
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    if (bits[i / 8] >> (i % 8) & 1) lanes[i] = from[i];
  }
  return hn::Load(d, lanes);
#else
  return hn::MaskedLoad(mask, d, from);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
