// The two data transforms of F(4x4, 3x3), vectorised over channels.
#include "cpu/kernels/winograd_transform.h"

#include "cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/winograd_transform.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "cpu/kernels/activation-inl.h"
#include "cpu/kernels/clamp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// B^T x for the points 0, 1, -1, 2, -2, infinity.
HWY_INLINE void input_1d(const Vec (&x)[6], Vec (&y)[6]) {
  const Tag d;
  const Vec four = hn::Set(d, 4.0f), five = hn::Set(d, 5.0f);
  const Vec a = hn::NegMulAdd(four, x[2], x[4]);  // x4 - 4 x2
  const Vec b = hn::NegMulAdd(four, x[1], x[3]);  // x3 - 4 x1
  const Vec c = hn::Sub(x[4], x[2]);
  const Vec e = hn::Sub(x[3], x[1]);
  const Vec f = hn::Add(e, e);
  y[0] = hn::MulAdd(four, x[0], hn::NegMulAdd(five, x[2], x[4]));
  y[1] = hn::Add(a, b);
  y[2] = hn::Sub(a, b);
  y[3] = hn::Add(c, f);
  y[4] = hn::Sub(c, f);
  y[5] = hn::MulAdd(four, x[1], hn::NegMulAdd(five, x[3], x[5]));
}

// A^T x.
HWY_INLINE void output_1d(const Vec (&x)[6], Vec (&y)[4]) {
  const Tag d;
  const Vec p = hn::Add(x[1], x[2]), q = hn::Sub(x[1], x[2]);
  const Vec r = hn::Add(x[3], x[4]), s = hn::Sub(x[3], x[4]);
  y[0] = hn::Add(hn::Add(x[0], p), r);
  y[1] = hn::MulAdd(hn::Set(d, 2.0f), s, q);
  y[2] = hn::MulAdd(hn::Set(d, 4.0f), r, p);
  y[3] = hn::MulAdd(hn::Set(d, 8.0f), s, hn::Add(q, x[5]));
}

template <bool kInside>
HWY_INLINE void input_vector(const WinogradTile& t, int64_t channel, size_t count) {
  const Tag d;
  const bool full = count == HWY_LANES(float);
  const auto mask = hn::FirstN(d, count);
  HWY_ALIGN float half[6][6][HWY_LANES(float)];
  for (int64_t j = 0; j < 6; ++j) {
    Vec x[6], y[6];
#pragma GCC unroll 6
    for (int64_t i = 0; i < 6; ++i) {
      const float* pixel = t.image + i * t.line_step + j * t.pixel_step + channel;
      const bool inside = kInside || (t.top + i >= 0 && t.top + i < t.in_h && t.left + j >= 0 && t.left + j < t.in_w);
      x[i] = !inside ? hn::Zero(d) : full ? hn::LoadU(d, pixel) : hn::MaskedLoad(mask, d, pixel);
    }
    input_1d(x, y);
#pragma GCC unroll 6
    for (int64_t i = 0; i < 6; ++i) hn::Store(y[i], d, half[i][j]);
  }
  for (int64_t i = 0; i < 6; ++i) {
    Vec x[6], y[6];
#pragma GCC unroll 6
    for (int64_t j = 0; j < 6; ++j) x[j] = hn::Load(d, half[i][j]);
    input_1d(x, y);
#pragma GCC unroll 6
    for (int64_t j = 0; j < 6; ++j) hn::StoreU(y[j], d, t.transformed + (i * 6 + j) * t.in_point_step + channel);
  }
}

void winograd_input_target(const WinogradTile& t) {
  const int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  const bool inside = t.top >= 0 && t.left >= 0 && t.top + 6 <= t.in_h && t.left + 6 <= t.in_w;
  for (int64_t c = 0; c < t.in_channels; c += lanes) {
    const int64_t rest = t.in_channels - c;
    const size_t count = static_cast<size_t>(rest < lanes ? rest : lanes);
    inside ? input_vector<true>(t, c, count) : input_vector<false>(t, c, count);
  }
}

HWY_INLINE void output_vector(const WinogradTile& t, int64_t channel, size_t count) {
  const Tag d;
  const bool full = count == HWY_LANES(float);
  const auto mask = hn::FirstN(d, count);
  const auto load = [&](const float* p) HWY_ATTR { return full ? hn::LoadU(d, p) : hn::MaskedLoad(mask, d, p); };
  HWY_ALIGN float half[4][6][HWY_LANES(float)];
  for (int64_t j = 0; j < 6; ++j) {
    Vec x[6], y[4];
#pragma GCC unroll 6
    for (int64_t i = 0; i < 6; ++i) x[i] = load(t.product + (i * 6 + j) * t.out_point_step + channel);
    output_1d(x, y);
#pragma GCC unroll 4
    for (int64_t i = 0; i < 4; ++i) hn::Store(y[i], d, half[i][j]);
  }
  const Vec lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
  const Vec bias = t.bias ? load(t.bias + channel) : hn::Zero(d);
  for (int64_t i = 0; i < t.rows; ++i) {
    Vec x[6], y[4];
#pragma GCC unroll 6
    for (int64_t j = 0; j < 6; ++j) x[j] = hn::Load(d, half[i][j]);
    output_1d(x, y);
#pragma GCC unroll 4
    for (int64_t j = 0; j < 4; ++j) {
      if (j >= t.columns) break;
      Vec value = hn::Add(y[j], bias);
      if (t.residual) {
        value = hn::Add(value, load(t.residual + i * t.residual_line_step + j * t.residual_pixel_step + channel));
      }
      value = clamp_keeping_nan(value, lo, hi);
      float* to = t.output + i * t.out_line_step + j * t.out_pixel_step + channel;
      if (full) {
        hn::StoreU(value, d, to);
      } else {
        hn::BlendedStore(value, mask, d, to);
      }
    }
  }
}

void winograd_output_target(const WinogradTile& t) {
  const int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t c = 0; c < t.out_channels; c += lanes) {
    const int64_t rest = t.out_channels - c;
    output_vector(t, c, static_cast<size_t>(rest < lanes ? rest : lanes));
  }
  if (!t.activation) return;
  for (int64_t i = 0; i < t.rows; ++i) {
    ActivationBlock block{
        t.output + i * t.out_line_step, t.out_pixel_step, t.columns, t.out_channels, nullptr, t.addend_pixel_step};
    if (t.addend) block.addend = t.addend + i * t.addend_line_step;
    activate(*t.activation, block);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(winograd_input_target);
HWY_EXPORT(winograd_output_target);

void winograd_input(const WinogradTile& tile) {
  HWY_DYNAMIC_DISPATCH(winograd_input_target)(tile);
}
void winograd_output(const WinogradTile& tile) {
  HWY_DYNAMIC_DISPATCH(winograd_output_target)(tile);
}

}  // namespace camshaft::cpu
#endif
