// The loops that read f16 by its bits, without a way through f32: tests, and what changes the sign alone.
#include <cstdint>

#include "backends/cpu/kernels/pointwise/tile_kernels.h"
#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/tile_halves.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#include "backends/cpu/kernels/pointwise/fill_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

constexpr uint16_t sign_bit = 0x8000, infinity = 0x7c00, one = 0x3c00;

template <FusedFunction kFunction>
HWY_INLINE uint16_t of_half(uint16_t x) {
  const auto magnitude = static_cast<uint16_t>(x & 0x7fff), sign = static_cast<uint16_t>(x & sign_bit);
  switch (kFunction) {
    case FusedFunction::is_nan_f16:
      return magnitude > infinity;
    case FusedFunction::is_inf_f16:
      return magnitude == infinity;
    case FusedFunction::is_inf_pos_f16:
      return x == infinity;
    case FusedFunction::is_inf_neg_f16:
      return x == (sign_bit | infinity);
    case FusedFunction::abs_f16:
      return magnitude;
    case FusedFunction::neg_f16:
      return static_cast<uint16_t>(x ^ sign_bit);
    default:  // The sign; zeros and NaN stay.
      return magnitude == 0 || magnitude > infinity ? x : static_cast<uint16_t>(sign | one);
  }
}

template <FusedFunction kFunction, class To>
void run(const void* const* in, void* out, int64_t n, unsigned uniform) {
  const auto* a = static_cast<const uint16_t*>(in[0]);
  auto* o = static_cast<To*>(out);
  if (uniform & 1) {
    const uint16_t x = *a;
    for (int64_t i = 0; i < n; ++i) o[i] = static_cast<To>(of_half<kFunction>(x));
    return;
  }
  fill_vectors(o, n, out == in[0], a, [=](int64_t i) HWY_ATTR { return static_cast<To>(of_half<kFunction>(a[i])); });
}

TileKernel half_kernel(FusedFunction function) {
  switch (function) {
    case FusedFunction::is_nan_f16:
      return run<FusedFunction::is_nan_f16, uint8_t>;
    case FusedFunction::is_inf_f16:
      return run<FusedFunction::is_inf_f16, uint8_t>;
    case FusedFunction::is_inf_pos_f16:
      return run<FusedFunction::is_inf_pos_f16, uint8_t>;
    case FusedFunction::is_inf_neg_f16:
      return run<FusedFunction::is_inf_neg_f16, uint8_t>;
    case FusedFunction::abs_f16:
      return run<FusedFunction::abs_f16, uint16_t>;
    case FusedFunction::neg_f16:
      return run<FusedFunction::neg_f16, uint16_t>;
    case FusedFunction::sign_f16:
      return run<FusedFunction::sign_f16, uint16_t>;
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(half_kernel);

TileKernel find_half_kernel(FusedFunction function) {
  return HWY_DYNAMIC_DISPATCH(half_kernel)(function);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
