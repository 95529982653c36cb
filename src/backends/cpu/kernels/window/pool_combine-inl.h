// How pooling adds a tap to a window. Included once per instruction set.
#if defined(CAMSHAFT_CPU_POOL_COMBINE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_POOL_COMBINE_INL_H
#undef CAMSHAFT_CPU_POOL_COMBINE_INL_H
#else
#define CAMSHAFT_CPU_POOL_COMBINE_INL_H
#endif

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

/// What a window without taps gives before it is divided.
template <bool kAverage>
constexpr float pool_neutral() {
  return kAverage ? 0.0f : -std::numeric_limits<float>::infinity();
}

/// The sum, or the maximum, which passes over taps that are NaN.
template <bool kAverage, class V>
HWY_INLINE V combine(V sum, V tap) {
  return kAverage ? hwy::HWY_NAMESPACE::Add(sum, tap) : hwy::HWY_NAMESPACE::Max(tap, sum);
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard
