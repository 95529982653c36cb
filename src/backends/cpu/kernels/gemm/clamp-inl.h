// Clamping that keeps NaN. Included once per instruction set.
#if defined(CAMSHAFT_CPU_CLAMP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_CLAMP_INL_H
#undef CAMSHAFT_CPU_CLAMP_INL_H
#else
#define CAMSHAFT_CPU_CLAMP_INL_H
#endif

#include <hwy/highway.h>

#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

/// x clamped to [lo, hi]; NaN stays NaN: as the second operand where that is what comes out.
template <class V>
HWY_INLINE V clamp_keeping_nan(V x, V lo, V hi) {
  namespace hn = hwy::HWY_NAMESPACE;
  if constexpr (kTarget.second_if_nan) {
    return hn::Min(hi, hn::Max(lo, x));
  } else {
    x = hn::IfThenElse(hn::Lt(x, lo), lo, x);
    return hn::IfThenElse(hn::Gt(x, hi), hi, x);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
