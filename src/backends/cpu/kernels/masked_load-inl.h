// Loads and stores of a part of a vector. Included once per instruction set.
#if defined(CAMSHAFT_CPU_MASKED_LOAD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_MASKED_LOAD_INL_H
#undef CAMSHAFT_CPU_MASKED_LOAD_INL_H
#else
#define CAMSHAFT_CPU_MASKED_LOAD_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

/// The lanes of `mask` from memory, zeros elsewhere; reads nothing outside the mask. (Highway's own MaskedLoad reads
/// the whole vector where the instruction set has no masks: past the end of a constant.)
template <class D, class M>
HWY_INLINE hwy::HWY_NAMESPACE::Vec<D> masked_load(M mask, D d, const hwy::HWY_NAMESPACE::TFromD<D>* from) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kTarget.partial_moves) {
    return hn::MaskedLoad(mask, d, from);
  } else {
    uint8_t bits[8] = {};
    hn::StoreMaskBits(d, mask, bits);
    HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())] = {};
    for (size_t i = 0; i < hn::Lanes(d); ++i) {
      if (bits[i / 8] >> (i % 8) & 1) lanes[i] = from[i];
    }
    return hn::Load(d, lanes);
  }
}

/// The lanes of `mask` to memory; writes nothing outside the mask. (Highway's own BlendedStore writes what was there
/// where the instruction set has no masks: over what another thread has written meanwhile.)
template <class D, class M>
HWY_INLINE void masked_store(hwy::HWY_NAMESPACE::Vec<D> v, M mask, D d, hwy::HWY_NAMESPACE::TFromD<D>* to) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kTarget.partial_moves) {
    hn::BlendedStore(v, mask, d, to);
  } else {
    uint8_t bits[8] = {};
    hn::StoreMaskBits(d, mask, bits);
    HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(D())];
    hn::Store(v, d, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i) {
      if (bits[i / 8] >> (i % 8) & 1) to[i] = lanes[i];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
