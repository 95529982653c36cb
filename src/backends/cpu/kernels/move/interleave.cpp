#include "backends/cpu/kernels/move/interleave.h"

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/move/interleave.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <int kParts, class T>
void interleave_of(const void* const* in, int64_t begin, int64_t end, T* out) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* from[kParts];
  for (int k = 0; k < kParts; ++k) from[k] = static_cast<const T*>(in[k]);
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const auto a = hn::LoadU(d, from[0] + i), b = hn::LoadU(d, from[1] + i);
    T* to = out + i * kParts;
    if constexpr (kParts == 2) {
      hn::StoreInterleaved2(a, b, d, to);
    } else if constexpr (kParts == 3) {
      hn::StoreInterleaved3(a, b, hn::LoadU(d, from[2] + i), d, to);
    } else {
      hn::StoreInterleaved4(a, b, hn::LoadU(d, from[2] + i), hn::LoadU(d, from[3] + i), d, to);
    }
  }
  for (; i < end; ++i)
    for (int k = 0; k < kParts; ++k) out[i * kParts + k] = from[k][i];
}

template <class T>
void interleave_typed(int parts, const void* const* in, int64_t begin, int64_t end, void* out) {
  T* to = static_cast<T*>(out);
  if (parts == 2) return interleave_of<2>(in, begin, end, to);
  if (parts == 3) return interleave_of<3>(in, begin, end, to);
  interleave_of<4>(in, begin, end, to);
}

void interleave_elements(int64_t width, int parts, const void* const* in, int64_t begin, int64_t end, void* out) {
  if (width == 1) return interleave_typed<uint8_t>(parts, in, begin, end, out);
  if (width == 2) return interleave_typed<uint16_t>(parts, in, begin, end, out);
  if (width == 4) return interleave_typed<uint32_t>(parts, in, begin, end, out);
  interleave_typed<uint64_t>(parts, in, begin, end, out);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(interleave_elements);

void interleave(int64_t width, int parts, const void* const* in, int64_t begin, int64_t end, void* out) {
  HWY_DYNAMIC_DISPATCH(interleave_elements)(width, parts, in, begin, end, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
