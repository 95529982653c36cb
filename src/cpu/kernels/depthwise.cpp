#include "cpu/kernels/depthwise.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/thread_pool.h"
#include "camshaft/error.h"
#include "cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/depthwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "cpu/kernels/clamp-inl.h"
#include "cpu/kernels/depthwise_row.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// A vector of input channels for the outputs from `channel` on: contiguous, or each repeated `multiplier` times.
HWY_INLINE Vec load_input(const float* pixel, int64_t channel, int64_t multiplier) {
  const Tag d;
  if (multiplier == 1) return hn::LoadU(d, pixel + channel);
  HWY_ALIGN float lanes[HWY_LANES(float)];
  for (int64_t i = 0; i < static_cast<int64_t>(HWY_LANES(float)); ++i) lanes[i] = pixel[(channel + i) / multiplier];
  return hn::Load(d, lanes);
}

// The last outputs, fewer than a vector: nothing beyond them is read.
HWY_INLINE Vec load_input_tail(const float* pixel, int64_t channel, int64_t multiplier, size_t count) {
  const Tag d;
  if (multiplier == 1) return hn::MaskedLoad(hn::FirstN(d, count), d, pixel + channel);
  HWY_ALIGN float lanes[HWY_LANES(float)] = {};
  for (size_t i = 0; i < count; ++i) lanes[i] = pixel[(channel + static_cast<int64_t>(i)) / multiplier];
  return hn::Load(d, lanes);
}

// P neighbouring output pixels, one vector of channels.
template <int P, bool kTail>
HWY_INLINE void pixels_vector(const DepthwiseRow& t, int64_t channel, size_t count) {
  const Tag d;
  const auto mask = hn::FirstN(d, count);
  Vec sum[P];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sum[p] = hn::Zero(d);
  for (int64_t i = 0; i < t.taps_h; ++i) {
    const float* line = t.input + i * t.line_step;
    const float* weights = t.weights + i * t.weights_line + channel;
    for (int64_t j = 0; j < t.taps_w; ++j, line += t.tap_step, weights += t.out_channels) {
      const Vec w = hn::LoadU(d, weights);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        const float* pixel = line + p * t.pixel_step;
        const Vec x =
            kTail ? load_input_tail(pixel, channel, t.multiplier, count) : load_input(pixel, channel, t.multiplier);
        sum[p] = hn::MulAdd(x, w, sum[p]);
      }
    }
  }
  const auto load = [&](const float* from)
                        HWY_ATTR { return kTail ? hn::MaskedLoad(mask, d, from) : hn::LoadU(d, from); };
  const Vec lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
  const Vec bias = t.bias ? load(t.bias + channel) : hn::Zero(d);
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    Vec y = hn::Add(sum[p], bias);
    if (t.residual) y = hn::Add(y, load(t.residual + p * t.residual_step + channel));
    y = clamp_keeping_nan(y, lo, hi);
    if (kTail) {
      hn::BlendedStore(y, mask, d, t.output + p * t.output_step + channel);
    } else {
      hn::StoreU(y, d, t.output + p * t.output_step + channel);
    }
  }
}

template <int P>
HWY_NOINLINE void pixels(const DepthwiseRow& t) {
  const int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  int64_t c = t.channel0;
  for (; c + lanes <= t.channel1; c += lanes) pixels_vector<P, false>(t, c, HWY_LANES(float));
  if (c < t.channel1) pixels_vector<P, true>(t, c, static_cast<size_t>(t.channel1 - c));
}

template <int P = 8>
HWY_INLINE void pixels_of(int64_t count, const DepthwiseRow& t) {
  if constexpr (P == 1) {
    pixels<1>(t);
  } else {
    if (count == P) return pixels<P>(t);
    pixels_of<P - 1>(count, t);
  }
}

void depthwise_pixels(const DepthwiseRow& first, int64_t count) {
  DepthwiseRow t = first;
  const int64_t tiles = (count + 7) / 8;
  for (int64_t i = 0, x = 0; i < tiles; ++i) {
    // Even tiles: 12 pixels are twice 6.
    const int64_t width = (count - x + tiles - i - 1) / (tiles - i);
    pixels_of<>(width, t);
    t.input += width * t.pixel_step;
    t.output += width * t.output_step;
    if (t.residual) t.residual += width * t.residual_step;
    x += width;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(depthwise_pixels);

namespace {

// What a vector load may read beyond the last weight: one AVX-512 vector.
constexpr int64_t kWeightPadding = 16;

// Kernel positions [first, last) of output o that fall inside the input.
struct Range {
  int64_t first, last;
};
Range inside(int64_t o, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad, int64_t in) {
  const int64_t start = o * stride - pad;
  const int64_t first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  const int64_t last = start >= in ? 0 : std::min(kernel, (in - 1 - start) / dilation + 1);
  return {std::min(first, last), last};
}

// One output row, channels [channel0, channel1).
void row(const ConvShape& s, const float* input, const float* packed, float* output, const Epilogue& e, int64_t index,
         int64_t channel0, int64_t channel1) {
  const int64_t in_step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  const int64_t out_h = s.out_h(), out_w = s.out_w();
  const int64_t image = index / out_h, y = index % out_h;
  const Range vertical = inside(y, s.kernel_h, s.stride_h, s.dilation_h, s.pad_top, s.in_h);

  DepthwiseRow t;
  t.line_step = s.dilation_h * s.in_w * in_step;
  t.tap_step = s.dilation_w * in_step;
  t.pixel_step = s.stride_w * in_step;
  t.output_step = out_step;
  t.residual_step = e.residual_ld;
  t.out_channels = s.out_channels;
  t.weights_line = s.kernel_w * s.out_channels;
  t.multiplier = s.out_channels / s.in_channels;
  t.taps_h = vertical.last - vertical.first;
  t.bias = e.bias;
  t.lo = e.lo;
  t.hi = e.hi;
  t.channel0 = channel0;
  t.channel1 = channel1;
  const int64_t first_line = y * s.stride_h - s.pad_top + vertical.first * s.dilation_h;
  for (int64_t x = 0; x < out_w;) {
    const Range horizontal = inside(x, s.kernel_w, s.stride_w, s.dilation_w, s.pad_left, s.in_w);
    // Pixels that see the whole width of the kernel go together, those at the borders one by one.
    int64_t count = 1;
    if (horizontal.last - horizontal.first == s.kernel_w) {
      const int64_t reach = (s.kernel_w - 1) * s.dilation_w;
      const int64_t end = (s.in_w - 1 - reach + s.pad_left) / s.stride_w + 1;
      count = std::max<int64_t>(1, std::min(end, out_w) - x);
    }
    t.taps_w = horizontal.last - horizontal.first;
    const bool any = t.taps_h > 0 && t.taps_w > 0;
    const int64_t first_pixel = x * s.stride_w - s.pad_left + horizontal.first * s.dilation_w;
    t.input = any ? input + ((image * s.in_h + first_line) * s.in_w + first_pixel) * in_step : input;
    t.weights = any ? packed + (vertical.first * s.kernel_w + horizontal.first) * s.out_channels : packed;
    if (!any) t.taps_h = 0;
    const int64_t pixel = index * out_w + x;
    t.output = output + pixel * out_step;
    t.residual = e.residual ? e.residual + pixel * e.residual_ld : nullptr;
    HWY_DYNAMIC_DISPATCH(depthwise_pixels)(t, count);
    t.taps_h = vertical.last - vertical.first;
    x += count;
  }
  if (e.callback) e.callback(e.context, index * out_w, out_w, channel0, channel1 - channel0);
}

}  // namespace

int64_t depthwise_weight_floats(int64_t out_channels, int64_t kernel_h, int64_t kernel_w) {
  return out_channels * kernel_h * kernel_w + kWeightPadding;
}

void pack_depthwise_weights(int64_t out_channels, int64_t kernel_h, int64_t kernel_w, const float* oihw,
                            float* packed) {
  const int64_t points = kernel_h * kernel_w;
  for (int64_t o = 0; o < out_channels; ++o) {
    for (int64_t p = 0; p < points; ++p) packed[p * out_channels + o] = oihw[o * points + p];
  }
  std::fill_n(packed + points * out_channels, kWeightPadding, 0.0f);
}

void unpack_depthwise_weights(int64_t out_channels, int64_t kernel_h, int64_t kernel_w, const float* packed,
                              float* oihw) {
  const int64_t points = kernel_h * kernel_w;
  for (int64_t o = 0; o < out_channels; ++o) {
    for (int64_t p = 0; p < points; ++p) oihw[o * points + p] = packed[p * out_channels + o];
  }
}

void depthwise(const ConvShape& s, const float* input, const float* packed, float* output, const Epilogue& epilogue,
               ThreadPool& pool) {
  if (s.groups != s.in_channels || s.in_channels == 0 || s.out_channels % s.in_channels != 0) {
    throw Error(ErrorCode::invalid_argument, "depthwise convolution: " + std::to_string(s.groups) + " groups for " +
                                                 std::to_string(s.in_channels) + " input and " +
                                                 std::to_string(s.out_channels) + " output channels");
  }
  const int64_t rows = s.batch * s.out_h();
  if (rows <= 0 || s.out_w() <= 0) return;
  // Few rows (a 7x7 image, a 1-D signal) are cut by channels too, so that the threads get even parts.
  const int threads = pool.size();
  int64_t parts = 1;
  if (threads > 1 && rows < 8 * threads) {
    parts = std::clamp<int64_t>((8 * threads + rows - 1) / rows, 1, std::max<int64_t>(1, s.out_channels / 64));
  }
  const int64_t width = ((s.out_channels + parts - 1) / parts + 15) / 16 * 16;
  parts = (s.out_channels + width - 1) / width;
  pool.parallel_for(rows * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t channel0 = i % parts * width;
      row(s, input, packed, output, epilogue, i / parts, channel0, std::min(s.out_channels, channel0 + width));
    }
  });
}

}  // namespace camshaft::cpu
#endif
