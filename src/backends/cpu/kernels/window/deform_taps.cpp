#include "backends/cpu/kernels/window/deform_taps.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/deform_taps.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void find_taps(const DeformTap& t, int64_t points, int32_t* pixels, float* weights) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bound = hn::Set(d, static_cast<float>(deform_bound)), one = hn::Set(d, 1.0f);
  const auto none = hn::Set(di, -1);
  for (int64_t p = 0; p < points; p += lanes) {
    const auto here = hn::FirstN(d, static_cast<size_t>(std::min(lanes, points - p)));
    const auto down = masked_load(here, d, t.down + p), across = masked_load(here, d, t.across + p);
    // Windows begin at whole pixels: fractions are those of the offsets, and exact. NaN is nowhere.
    const auto is_near = hn::And(hn::Lt(hn::Abs(down), bound), hn::Lt(hn::Abs(across), bound));
    const auto whole_down = hn::Floor(hn::IfThenElseZero(is_near, down));
    const auto whole_across = hn::Floor(hn::IfThenElseZero(is_near, across));
    const auto low = hn::Sub(down, whole_down), right = hn::Sub(across, whole_across);
    const auto top = hn::Add(hn::Add(hn::LoadU(di, t.tops + p), hn::Set(di, t.row)), hn::ConvertTo(di, whole_down));
    const auto left =
        hn::Add(hn::Add(hn::LoadU(di, t.lefts + p), hn::Set(di, t.column)), hn::ConvertTo(di, whole_across));
    // A sample exactly on the line before the first is outside, not a pixel that counts 0 times.
    const auto far_up = hn::And(hn::Eq(top, none), hn::RebindMask(di, hn::Eq(low, hn::Zero(d))));
    const auto far_left = hn::And(hn::Eq(left, none), hn::RebindMask(di, hn::Eq(right, hn::Zero(d))));
    const auto inside = hn::AndNot(hn::Or(far_up, far_left), hn::RebindMask(di, is_near));
    const auto factor = t.mask ? masked_load(here, d, t.mask + p) : one;
    for (int i = 0; i < 4; ++i) {
      const auto row = i / 2 ? hn::Add(top, hn::Set(di, 1)) : top;
      const auto column = i % 2 ? hn::Add(left, hn::Set(di, 1)) : left;
      const auto in_rows = hn::And(hn::Gt(row, none), hn::Lt(row, hn::Set(di, t.height)));
      const auto in_columns = hn::And(hn::Gt(column, none), hn::Lt(column, hn::Set(di, t.width)));
      const auto pixel = hn::Add(hn::Mul(row, hn::Set(di, t.width)), column);
      const auto is_pixel = hn::And(inside, hn::And(in_rows, in_columns));
      hn::StoreU(hn::IfThenElse(is_pixel, pixel, none), di, pixels + i * grid_block + p);
      const auto weight = hn::Mul(i / 2 ? low : hn::Sub(one, low), i % 2 ? right : hn::Sub(one, right));
      const auto counted = hn::IfThenElseZero(hn::RebindMask(d, is_pixel), hn::Mul(weight, factor));
      hn::StoreU(counted, d, weights + i * grid_block + p);
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(find_taps);

void deform_taps(const DeformTap& tap, int64_t points, int32_t* pixels, float* weights) {
  HWY_DYNAMIC_DISPATCH(find_taps)(tap, points, pixels, weights);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
