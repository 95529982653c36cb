#include "backends/cpu/kernels/window/grid_sample.h"

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/grid_sample.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> sample_vector(D d, const float* image, int64_t taps, const int32_t* pixels,
                                    const float* weights) {
  const hn::RebindToSigned<D> di;
  auto sum = hn::Zero(d);
  for (int64_t t = 0; t < taps; ++t) {
    const auto pixel = hn::LoadU(di, pixels + t * grid_block);
    const auto inside = hn::RebindMask(d, hn::Gt(pixel, hn::Set(di, -1)));
    const auto value = hn::GatherIndex(d, image, hn::Max(pixel, hn::Zero(di)));
    // What lies outside is left out, whatever the first pixel holds.
    sum = hn::MulAdd(hn::LoadU(d, weights + t * grid_block), hn::IfThenElseZero(inside, value), sum);
  }
  return sum;
}

void sample_points(const float* image, int64_t channels, int64_t plane, int64_t points, int64_t taps,
                   const int32_t* pixels, const float* weights, float* out, int64_t out_step) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < channels; ++c, image += plane, out += out_step) {
    int64_t p = 0;
    for (; p + lanes <= points; p += lanes)
      hn::StoreU(sample_vector(d, image, taps, pixels + p, weights + p), d, out + p);
    for (; p < points; ++p) out[p] = hn::GetLane(sample_vector(one, image, taps, pixels + p, weights + p));
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(sample_points);

void sample_block(const float* image, int64_t channels, int64_t plane, int64_t points, int64_t taps,
                  const int32_t* pixels, const float* weights, float* out, int64_t out_step) {
  HWY_DYNAMIC_DISPATCH(sample_points)(image, channels, plane, points, taps, pixels, weights, out, out_step);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
