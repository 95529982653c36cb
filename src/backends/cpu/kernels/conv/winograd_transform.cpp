// The two data transforms of F(4x4, 3x3) and F(2x2, 3x3), vectorised over channels.
#include "backends/cpu/kernels/conv/winograd_transform.h"

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/winograd_transform.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/pointwise/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// B^T x and A^T x for the points 0, +-a, +-b, infinity, with a^2 = 1/2 and b^2 = 2: their largest error is a fifth of
// that of the customary 1 and 2.
constexpr float kA = 0.70710678f, kB = 1.41421356f;

HWY_INLINE void input_1d(const Vec (&x)[6], Vec (&y)[6]) {
  const Tag d;
  const Vec half = hn::Set(d, 0.5f), two = hn::Set(d, 2.0f), both = hn::Set(d, 2.5f);
  const Vec a = hn::Set(d, kA), b = hn::Set(d, kB);
  const Vec p = hn::NegMulAdd(two, x[2], x[4]), q = hn::NegMulAdd(two, x[1], x[3]);
  const Vec r = hn::NegMulAdd(half, x[2], x[4]), s = hn::NegMulAdd(half, x[1], x[3]);
  y[0] = hn::Add(x[0], hn::NegMulAdd(both, x[2], x[4]));
  y[1] = hn::MulAdd(a, q, p);
  y[2] = hn::NegMulAdd(a, q, p);
  y[3] = hn::MulAdd(b, s, r);
  y[4] = hn::NegMulAdd(b, s, r);
  y[5] = hn::Add(x[1], hn::NegMulAdd(both, x[3], x[5]));
}

HWY_INLINE void output_1d(const Vec (&x)[6], Vec (&y)[4]) {
  const Tag d;
  const Vec p = hn::Add(x[1], x[2]), q = hn::Sub(x[1], x[2]);
  const Vec r = hn::Add(x[3], x[4]), s = hn::Sub(x[3], x[4]);
  y[0] = hn::Add(hn::Add(x[0], p), r);
  y[1] = hn::MulAdd(hn::Set(d, kA), q, hn::Mul(hn::Set(d, kB), s));
  y[2] = hn::MulAdd(hn::Set(d, 0.5f), p, hn::Add(r, r));
  y[3] = hn::MulAdd(hn::Set(d, kA / 2), q, hn::MulAdd(hn::Set(d, 2 * kB), s, x[5]));
}

// The same for the points 0, 1, -1, infinity.
HWY_INLINE void input_1d(const Vec (&x)[4], Vec (&y)[4]) {
  y[0] = hn::Sub(x[0], x[2]);
  y[1] = hn::Add(x[1], x[2]);
  y[2] = hn::Sub(x[2], x[1]);
  y[3] = hn::Sub(x[3], x[1]);
}

HWY_INLINE void output_1d(const Vec (&x)[4], Vec (&y)[2]) {
  y[0] = hn::Add(x[0], hn::Add(x[1], x[2]));
  y[1] = hn::Add(hn::Sub(x[1], x[2]), x[3]);
}

template <int kTile, bool kInside>
HWY_INLINE void input_vector(const WinogradTile& t, int64_t channel, size_t count) {
  const Tag d;
  const bool full = count == HWY_LANES(float);
  const auto mask = hn::FirstN(d, count);
  constexpr int64_t size = kTile + 2;
  HWY_ALIGN float half[size][size][HWY_LANES(float)];
  for (int64_t j = 0; j < size; ++j) {
    Vec x[size], y[size];
    // The pixels that the next tile adds: with smaller blocks, 6 % of VGG-16.
    if (j >= 2)
      for (int64_t i = 0; i < size; ++i)
        __builtin_prefetch(t.image + i * t.line_step + (j + kTile) * t.pixel_step + channel);
#pragma GCC unroll 6
    for (int64_t i = 0; i < size; ++i) {
      const float* pixel = t.image + i * t.line_step + j * t.pixel_step + channel;
      const bool inside = kInside || (t.top + i >= 0 && t.top + i < t.in_h && t.left + j >= 0 && t.left + j < t.in_w);
      x[i] = !inside ? hn::Zero(d) : full ? hn::LoadU(d, pixel) : masked_load(mask, d, pixel);
    }
    input_1d(x, y);
#pragma GCC unroll 6
    for (int64_t i = 0; i < size; ++i) hn::Store(y[i], d, half[i][j]);
  }
  for (int64_t i = 0; i < size; ++i) {
    Vec x[size], y[size];
#pragma GCC unroll 6
    for (int64_t j = 0; j < size; ++j) x[j] = hn::Load(d, half[i][j]);
    input_1d(x, y);
#pragma GCC unroll 6
    for (int64_t j = 0; j < size; ++j) hn::StoreU(y[j], d, t.transformed + (i * size + j) * t.in_point_step + channel);
  }
}

template <int kTile>
HWY_INLINE void input_tile(const WinogradTile& t) {
  const int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  const bool inside = t.top >= 0 && t.left >= 0 && t.top + kTile + 2 <= t.in_h && t.left + kTile + 2 <= t.in_w;
  for (int64_t c = 0; c < t.in_channels; c += lanes) {
    const int64_t rest = t.in_channels - c;
    const size_t count = static_cast<size_t>(rest < lanes ? rest : lanes);
    inside ? input_vector<kTile, true>(t, c, count) : input_vector<kTile, false>(t, c, count);
  }
}

void winograd_input_target(const WinogradTile& t) {
  t.size == 4 ? input_tile<4>(t) : input_tile<2>(t);
}

template <int kTile>
HWY_INLINE void output_vector(const WinogradTile& t, int64_t channel, size_t count) {
  const Tag d;
  const bool full = count == HWY_LANES(float);
  const auto mask = hn::FirstN(d, count);
  const auto load = [&](const float* p) HWY_ATTR { return full ? hn::LoadU(d, p) : masked_load(mask, d, p); };
  constexpr int64_t size = kTile + 2;
  HWY_ALIGN float half[kTile][size][HWY_LANES(float)];
  for (int64_t j = 0; j < size; ++j) {
    Vec x[size], y[kTile];
#pragma GCC unroll 6
    for (int64_t i = 0; i < size; ++i) x[i] = load(t.product + (i * size + j) * t.out_point_step + channel);
    output_1d(x, y);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kTile; ++i) hn::Store(y[i], d, half[i][j]);
  }
  const Vec lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
  const Vec bias = t.bias ? load(t.bias + channel) : hn::Zero(d);
  for (int64_t i = 0; i < t.rows; ++i) {
    Vec x[size], y[kTile];
#pragma GCC unroll 6
    for (int64_t j = 0; j < size; ++j) x[j] = hn::Load(d, half[i][j]);
    output_1d(x, y);
#pragma GCC unroll 4
    for (int64_t j = 0; j < kTile; ++j) {
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
        masked_store(value, mask, d, to);
      }
    }
  }
}

void winograd_output_target(const WinogradTile& t) {
  const int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t c = 0; c < t.out_channels; c += lanes) {
    const int64_t rest = t.out_channels - c;
    const size_t count = static_cast<size_t>(rest < lanes ? rest : lanes);
    t.size == 4 ? output_vector<4>(t, c, count) : output_vector<2>(t, c, count);
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
