// Clamping that keeps NaN. Included once per instruction set.
#if defined(CAMSHAFT_CPU_CLAMP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_CLAMP_INL_H
#undef CAMSHAFT_CPU_CLAMP_INL_H
#else
#define CAMSHAFT_CPU_CLAMP_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

/// x clamped to [lo, hi]; NaN stays NaN.
template <class V>
HWY_INLINE V clamp_keeping_nan(V x, V lo, V hi) {
  namespace hn = hwy::HWY_NAMESPACE;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  // x86 max and min return the second operand if either is NaN.
  return hn::Min(hi, hn::Max(lo, x));
#else
  x = hn::IfThenElse(hn::Lt(x, lo), lo, x);
  return hn::IfThenElse(hn::Gt(x, hi), hi, x);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
