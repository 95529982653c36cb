// Depthwise rows in which an input pixel serves all outputs that see it from one load. Included once per instruction
// set, by depthwise.cpp.
#if defined(CAMSHAFT_CPU_DEPTHWISE_SLIDE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef CAMSHAFT_CPU_DEPTHWISE_SLIDE_INL_H
#undef CAMSHAFT_CPU_DEPTHWISE_SLIDE_INL_H
#else
#define CAMSHAFT_CPU_DEPTHWISE_SLIDE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/cpu/kernels/conv/depthwise_row.h"
#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/tile_traits-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace slide {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// Most neighbouring outputs of a tile: their sums, a line of weights and an input share the registers.
inline constexpr int kMostPixels = kTarget.depthwise_pixels;

/// P neighbouring outputs: of the (P - 1) * stride + kernel width input pixels that they see, counted from `first`
/// (which may lie left of the line), [begin, end) are inside the image.
struct Tile {
  int64_t first, begin, end;
  float* output;
  const float* residual;
};

template <int P, int kWidth, int kStride, bool kTail>
HWY_INLINE void tile_vector(const DepthwiseRow& r, const Tile& t, int64_t channel, size_t count) {
  const Tag d;
  const auto mask = hn::FirstN(d, count);
  const auto load = [&](const float* from) HWY_ATTR { return kTail ? masked_load(mask, d, from) : hn::LoadU(d, from); };
  constexpr int kSeen = (P - 1) * kStride + kWidth;
  const Vec bias = r.bias ? load(r.bias + channel) : hn::Zero(d);
  Vec sum[P];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) sum[p] = bias;
  const float* line = r.input + channel;
  const int64_t step = r.pixel_step, first = t.first * step;
  const float* HWY_RESTRICT weights = r.weights_of(channel);
  for (int64_t i = 0; i < r.taps_h; ++i, line += r.line_step) {
    if (i == r.wrap) line -= r.ring;
    Vec w[kWidth];
#pragma GCC unroll 8
    for (int j = 0; j < kWidth; ++j) w[j] = hn::LoadU(d, weights + j * kDepthwiseBlock);
    weights += kWidth * kDepthwiseBlock;
    int64_t at = first;
#pragma GCC unroll 40
    for (int x = 0; x < kSeen; ++x, at += step) {
      // Or the compiler keeps as many offsets as there are pixels, most of them spilled (5x5: 150 GFLOP/s, not 250).
      __asm__("" : "+r"(at));
      // Every output sees something, so that only these can be outside.
      if (x < kWidth - 1 && x < t.begin) continue;
      if (x > kSeen - kWidth && x >= t.end) continue;
      Vec value = load(line + at);
      if constexpr (kWidth == 3) keep_in_register(value);
#pragma GCC unroll 8
      for (int j = 0; j < kWidth; ++j) {
        const int p = (x - j) / kStride;
        if (x >= j && (x - j) % kStride == 0 && p < P) sum[p] = hn::MulAdd(value, w[j], sum[p]);
      }
    }
  }
  const Vec lo = hn::Set(d, r.lo), hi = hn::Set(d, r.hi);
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
    Vec y = sum[p];
    if (t.residual) y = hn::Add(y, load(t.residual + p * r.residual_step + channel));
    y = clamp_keeping_nan(y, lo, hi);
    if (kTail) {
      masked_store(y, mask, d, t.output + p * r.output_step + channel);
    } else {
      hn::StoreU(y, d, t.output + p * r.output_step + channel);
    }
  }
}

template <int P, int kWidth, int kStride>
HWY_NOINLINE void tile(const DepthwiseRow& r, const Tile& t) {
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  int64_t c = r.channel0;
  for (; c + lanes <= r.channel1; c += lanes) tile_vector<P, kWidth, kStride, false>(r, t, c, HWY_LANES(float));
  if (c < r.channel1) tile_vector<P, kWidth, kStride, true>(r, t, c, static_cast<size_t>(r.channel1 - c));
}

using TileFunction = void (*)(const DepthwiseRow&, const Tile&);

template <int kWidth, int kStride, int... P>
constexpr std::array<TileFunction, sizeof...(P)> tiles_of(std::integer_sequence<int, P...>) {
  return {&tile<P + 1, kWidth, kStride>...};
}

template <int kWidth, int kStride>
void row(const DepthwiseRow& r) {
  static constexpr auto functions = tiles_of<kWidth, kStride>(std::make_integer_sequence<int, kMostPixels>());
  // Even tiles: 15 pixels are 8 and 7.
  const int64_t tiles = (r.out_w + kMostPixels - 1) / kMostPixels;
  for (int64_t i = 0, x = 0; i < tiles; ++i) {
    const int64_t pixels = (r.out_w - x + tiles - i - 1) / (tiles - i);
    Tile t;
    t.first = x * kStride - r.pad_left;
    t.begin = -t.first;
    t.end = r.in_w - t.first;
    t.output = r.output + x * r.output_step;
    t.residual = r.residual ? r.residual + x * r.residual_step : nullptr;
    functions[static_cast<size_t>(pixels - 1)](r, t);
    x += pixels;
  }
}

}  // namespace slide

/// The row, if it is of a kind that has a kernel here and every output sees a pixel at least.
HWY_INLINE bool slide_row(const DepthwiseRow& r) {
  const bool sees = r.pad_left < r.kernel_w && (r.out_w - 1) * r.stride - r.pad_left < r.in_w;
  if (r.dilation != 1 || !sees) return false;
  if (r.kernel_w == 3 && r.stride == 1) return slide::row<3, 1>(r), true;
  if (r.kernel_w == 3 && r.stride == 2) return slide::row<3, 2>(r), true;
  if (r.kernel_w == 5 && r.stride == 1) return slide::row<5, 1>(r), true;
  if (r.kernel_w == 5 && r.stride == 2) return slide::row<5, 2>(r), true;
  if (r.kernel_w == 7 && r.stride == 1) return slide::row<7, 1>(r), true;
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#endif
