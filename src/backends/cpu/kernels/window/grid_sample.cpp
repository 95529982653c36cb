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
HWY_INLINE hn::Vec<D> sample_vector(D d, const float* image, const SampleTaps& taps, int64_t p) {
  const hn::RebindToSigned<D> di;
  auto sum = hn::Zero(d);
  for (int64_t t = 0; t < taps.count; ++t) {
    const auto pixel = hn::LoadU(di, taps.pixels + t * taps.step + p);
    const auto inside = hn::RebindMask(d, hn::Gt(pixel, hn::Set(di, -1)));
    const auto value = hn::GatherIndex(d, image, hn::Max(pixel, hn::Zero(di)));
    // What lies outside is left out, whatever the first pixel holds.
    sum = hn::MulAdd(hn::LoadU(d, taps.weights + t * taps.step + p), hn::IfThenElseZero(inside, value), sum);
  }
  return sum;
}

#if HWY_TARGET != HWY_SCALAR
using Group = hn::FixedTag<float, grid_group>;

// Pairs of pixels are loaded together: a gather takes as many steps as it has elements, more of them.
HWY_INLINE hn::Vec<Group> sample_group(const float* image, const SampleTaps& taps, int64_t p) {
  const Group d;
  const hn::Half<Group> half;
  auto sum = hn::Zero(d);
  for (int64_t t = 0; t < taps.count; t += 2) {
    const int32_t* const pixel = taps.pixels + t * taps.step + p;
    const auto front = hn::Combine(d, hn::LoadU(half, image + pixel[1]), hn::LoadU(half, image + pixel[0]));
    const auto back = hn::Combine(d, hn::LoadU(half, image + pixel[3]), hn::LoadU(half, image + pixel[2]));
    const float* const weight = taps.weights + t * taps.step + p;
    sum = hn::MulAdd(hn::LoadU(d, weight), hn::ConcatEven(d, back, front), sum);
    sum = hn::MulAdd(hn::LoadU(d, weight + taps.step), hn::ConcatOdd(d, back, front), sum);
  }
  return sum;
}

// Those of `points` that make whole groups; returns how many that are.
int64_t sample_groups(const float* image, int64_t points, const SampleTaps& taps, float* out) {
  const Group d;
  int64_t p = 0;
  for (; p + grid_group <= points; p += grid_group) {
    const bool pairs = taps.side_by_side[p / grid_group] != 0;
    hn::StoreU(pairs ? sample_group(image, taps, p) : sample_vector(d, image, taps, p), d, out + p);
  }
  return p;
}

void find_neighbours(const SampleTaps& taps, int64_t points) {
  const hn::FixedTag<int32_t, grid_group> d;
  for (int64_t p = 0; p + grid_group <= points; p += grid_group) {
    auto apart = hn::Zero(d);
    for (int64_t t = 0; t + 2 <= taps.count; t += 2) {
      const auto pixel = hn::LoadU(d, taps.pixels + t * taps.step + p);
      const auto next = hn::LoadU(d, taps.pixels + (t + 1) * taps.step + p);
      const auto outside = hn::BroadcastSignBit(pixel);
      apart = hn::Or(apart, hn::Or(outside, hn::Xor(next, hn::Add(pixel, hn::Set(d, 1)))));
    }
    taps.side_by_side[p / grid_group] = hn::AllTrue(d, hn::Eq(apart, hn::Zero(d)));
  }
}
#else
int64_t sample_groups(const float*, int64_t, const SampleTaps&, float*) {
  return 0;
}
void find_neighbours(const SampleTaps&, int64_t) {}
#endif

void sample_points(const float* image, int64_t channels, int64_t plane, int64_t points, const SampleTaps& taps,
                   float* out, int64_t out_step) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < channels; ++c, image += plane, out += out_step) {
    int64_t p = 0;
    if (taps.count % 2 == 0)
      p = sample_groups(image, points, taps, out);
    else
      for (; p + lanes <= points; p += lanes) hn::StoreU(sample_vector(d, image, taps, p), d, out + p);
    for (; p < points; ++p) out[p] = hn::GetLane(sample_vector(one, image, taps, p));
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(sample_points);
HWY_EXPORT(find_neighbours);

void sample_block(const float* image, int64_t channels, int64_t plane, int64_t points, const SampleTaps& taps,
                  float* out, int64_t out_step) {
  HWY_DYNAMIC_DISPATCH(sample_points)(image, channels, plane, points, taps, out, out_step);
}

void find_side_by_side(const SampleTaps& taps, int64_t points) {
  HWY_DYNAMIC_DISPATCH(find_neighbours)(taps, points);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
