#include "backends/cpu/kernels/tile_traits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/tile_traits.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

const TileTraits& own_traits() {
  return kTarget;
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(own_traits);

const TileTraits& tile_traits() {
  return HWY_DYNAMIC_DISPATCH(own_traits)();
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
