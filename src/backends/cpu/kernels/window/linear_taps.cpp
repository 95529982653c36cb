#include "backends/cpu/kernels/window/linear_taps.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/linear_taps.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using F64 = hn::ScalableTag<double>;
using F32 = hn::Rebind<float, F64>;
using I32 = hn::Rebind<int32_t, F64>;

// The two taps of each point along one axis: offsets into the image, or -1, and weights.
struct AxisTaps {
  alignas(64) int32_t pixels[2][grid_block];
  alignas(64) double weights[2][grid_block];
};

void axis_taps(const LinearImage& image, int64_t axis, const float* positions, int64_t points, AxisTaps& taps) {
  const F64 d;
  const I32 di;
  const auto whole = static_cast<double>(image.sizes[axis]);
  const auto zero = hn::Zero(d), one = hn::Set(d, 1), half = hn::Set(d, 0.5), size = hn::Set(d, whole);
  const auto last = hn::Set(d, whole - 1), most = hn::Set(d, 0x1p52);
  const auto none = hn::Set(di, -1), stride = hn::Set(di, static_cast<int32_t>(image.strides[axis]));
  for (int64_t p = 0; p < points; p += static_cast<int64_t>(hn::Lanes(d))) {
    const auto position = hn::Add(hn::PromoteTo(d, hn::Load(F32(), positions + p)), one);
    auto x = hn::Mul(image.align_corners ? hn::Mul(position, last) : hn::Sub(hn::Mul(position, size), one), half);
    // What is not a number, or so far out that pixels cannot be counted, lies outside.
    const auto far = hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, -2), hn::Set(d, whole + 2));
    const auto outside = hn::IfThenElse(hn::IsNaN(x), hn::Set(d, -1), far);
    x = hn::IfThenElse(hn::Lt(hn::Abs(x), most), x, outside);
    if (image.clamp) x = hn::Min(hn::Max(x, zero), last);
    const auto first = hn::Floor(x);
    const auto rest = hn::Sub(x, first);
    hn::Store(hn::Sub(one, rest), d, taps.weights[0] + p);
    hn::Store(rest, d, taps.weights[1] + p);
    for (int k = 0; k < 2; ++k) {
      auto pixel = k == 0 ? first : hn::Add(first, one);
      if (image.clamp) pixel = hn::Min(pixel, last);
      const auto inside = hn::And(hn::Ge(pixel, zero), hn::Lt(pixel, size));
      // -1 for what lies outside, which any stride leaves below zero.
      const auto counted = hn::DemoteTo(di, hn::IfThenElse(inside, pixel, hn::Set(d, -1)));
      hn::Store(hn::IfThenElse(hn::Eq(counted, none), none, hn::Mul(counted, stride)), di, taps.pixels[k] + p);
    }
  }
}

void find_linear_taps(const LinearImage& image, const float* grid, int64_t points, const SampleTaps& taps) {
  const F64 d;
  const F32 df;
  const I32 di;
  AxisTaps along[3];
  alignas(64) float positions[grid_block] = {};
  for (int64_t a = 0; a < image.axes; ++a) {
    for (int64_t p = 0; p < points; ++p) positions[p] = grid[p * image.axes + image.axes - 1 - a];
    axis_taps(image, a, positions, points, along[a]);
  }
  for (int64_t t = 0; t < taps.count; ++t) {
    for (int64_t p = 0; p < points; p += static_cast<int64_t>(hn::Lanes(d))) {
      auto pixel = hn::Zero(di), sign = hn::Zero(di);
      auto weight = hn::Set(d, 1);
      for (int64_t a = 0; a < image.axes; ++a) {
        const int64_t k = t >> (image.axes - 1 - a) & 1;
        const auto offset = hn::Load(di, along[a].pixels[k] + p);
        pixel = hn::Add(pixel, offset);
        sign = hn::Or(sign, offset);
        weight = hn::Mul(weight, hn::Load(d, along[a].weights[k] + p));
      }
      hn::StoreU(hn::IfThenElse(hn::Lt(sign, hn::Zero(di)), hn::Set(di, -1), pixel), di,
                 taps.pixels + t * taps.step + p);
      hn::StoreU(hn::DemoteTo(df, weight), df, taps.weights + t * taps.step + p);
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(find_linear_taps);

void linear_taps(const LinearImage& image, const float* grid, int64_t points, const SampleTaps& taps) {
  HWY_DYNAMIC_DISPATCH(find_linear_taps)(image, grid, points, taps);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
