#include "cpu/kernels/depthwise.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/thread_pool.h"
#include "camshaft/error.h"
#include "cpu/kernels/gemm_core.h"
#include "cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/depthwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "cpu/kernels/clamp-inl.h"
#include "cpu/kernels/depthwise_row.h"
#include "cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;

// A vector of channels; the last may be fewer, and nothing beyond them is read.
template <bool kTail>
HWY_INLINE Vec load_input(const float* pixel, size_t count) {
  const Tag d;
  return kTail ? masked_load(hn::FirstN(d, count), d, pixel) : hn::LoadU(d, pixel);
}

// P neighbouring output pixels, V vectors of channels: about eight sums, so that they hide each other's latency. kWidth
// is the kernel's width, or 0 if only known at run time: the loop over 3 positions costs more than what is in it (384
// channels at 14x14: 71 GFLOP/s unless unrolled). kSlide: a pixel's step is a tap's (stride and dilation 1), so that an
// input serves kWidth outputs from one load.
template <int P, int V, int kWidth, bool kSlide, bool kTail>
HWY_INLINE void pixels_vector(const DepthwiseRow& t, int64_t channel, size_t count) {
  const Tag d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  const auto mask = hn::FirstN(d, count);
  Vec sum[P][V];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[p][v] = hn::Zero(d);
  }
  const int64_t tap_step = t.tap_step, pixel_step = t.pixel_step, out_channels = t.out_channels;
  const auto tap = [&](const float* HWY_RESTRICT pixel, const float* HWY_RESTRICT weights) HWY_ATTR {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Vec w = hn::LoadU(d, weights + v * lanes);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        const Vec x = load_input<kTail>(pixel + p * pixel_step + channel + v * lanes, count);
        sum[p][v] = hn::MulAdd(x, w, sum[p][v]);
      }
    }
  };
  const float* line = t.input;
  const float* weights = t.weights + channel;
  for (int64_t i = 0; i < t.taps_h; ++i, line += t.line_step, weights += t.weights_line) {
    if (i == t.wrap) line -= t.ring;
    if constexpr (kSlide) {
      static_assert(V == 1 && kWidth != 0);
      Vec w[kWidth];
#pragma GCC unroll 8
      for (int j = 0; j < kWidth; ++j) w[j] = hn::LoadU(d, weights + j * out_channels);
      const float* HWY_RESTRICT pixel = line;
#pragma GCC unroll 16
      for (int x = 0; x < P + kWidth - 1; ++x, pixel += pixel_step) {
        const Vec value = load_input<kTail>(pixel + channel, count);
#pragma GCC unroll 8
        for (int j = 0; j < kWidth; ++j) {
          if (x >= j && x - j < P) sum[x - j][0] = hn::MulAdd(value, w[j], sum[x - j][0]);
        }
      }
    } else if constexpr (kWidth != 0) {
#pragma GCC unroll 8
      for (int j = 0; j < kWidth; ++j) tap(line + j * tap_step, weights + j * out_channels);
    } else {
      for (int64_t j = 0; j < t.taps_w; ++j) tap(line + j * tap_step, weights + j * out_channels);
    }
  }
  const auto load = [&](const float* from) HWY_ATTR { return kTail ? masked_load(mask, d, from) : hn::LoadU(d, from); };
  const Vec lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const int64_t at = channel + v * lanes;
    const Vec bias = t.bias ? load(t.bias + at) : hn::Zero(d);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      Vec y = hn::Add(sum[p][v], bias);
      if (t.residual) y = hn::Add(y, load(t.residual + p * t.residual_step + at));
      y = clamp_keeping_nan(y, lo, hi);
      if (kTail) {
        hn::BlendedStore(y, mask, d, t.output + p * t.output_step + at);
      } else {
        hn::StoreU(y, d, t.output + p * t.output_step + at);
      }
    }
  }
}

// `tiles` times P pixels. All tiles in one call: with few channels its prologue would cost as much as the work.
template <int P, int kWidth, bool kSlide>
HWY_NOINLINE void pixels(DepthwiseRow& t, int64_t tiles) {
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  // One pixel alone (at the image's border) waits for every multiply-add but for its channels.
  constexpr int V = kSlide ? 1 : P == 1 ? 8 : P == 2 ? 4 : P <= 4 ? 2 : 1;
  for (int64_t i = 0; i < tiles; ++i) {
    int64_t c = t.channel0;
    if constexpr (V > 1) {
      for (; c + V * lanes <= t.channel1; c += V * lanes)
        pixels_vector<P, V, kWidth, false, false>(t, c, HWY_LANES(float));
    }
    for (; c + lanes <= t.channel1; c += lanes) pixels_vector<P, 1, kWidth, kSlide, false>(t, c, HWY_LANES(float));
    if (c < t.channel1) pixels_vector<P, 1, kWidth, kSlide, true>(t, c, static_cast<size_t>(t.channel1 - c));
    t.input += P * t.pixel_step;
    t.output += P * t.output_step;
    if (t.residual) t.residual += P * t.residual_step;
  }
}

template <int P = 8>
HWY_INLINE void pixels_of(int64_t width, DepthwiseRow& t, int64_t tiles) {
  if constexpr (P > 1) {
    if (width < P) return pixels_of<P - 1>(width, t, tiles);
  }
  constexpr bool kMany = P >= 5;
  const bool slides = kMany && t.tap_step == t.pixel_step;
  if (t.taps_w == 3) {
    slides ? pixels<P, 3, kMany>(t, tiles) : pixels<P, 3, false>(t, tiles);
  } else if (t.taps_w == 5) {
    slides ? pixels<P, 5, kMany>(t, tiles) : pixels<P, 5, false>(t, tiles);
  } else if (t.taps_w == 7) {
    slides ? pixels<P, 7, kMany>(t, tiles) : pixels<P, 7, false>(t, tiles);
  } else {
    pixels<P, 0, false>(t, tiles);
  }
}

void depthwise_pixels(const DepthwiseRow& first, int64_t count) {
  DepthwiseRow t = first;
  // Even tiles: 12 pixels are twice 6, 26 are twice 7 and twice 6.
  const int64_t tiles = (count + 7) / 8, width = count / tiles, wider = count % tiles;
  if (wider > 0) pixels_of<>(width + 1, t, wider);
  pixels_of<>(width, t, tiles - wider);
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
// Input rows under one output row, and weights, of a chunk of channels: 32 KiB.
constexpr int64_t kChunkFloats = 8 * 1024;
constexpr int64_t kBlockFloats = 32 * 1024;

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

// Outputs that see the whole kernel, clipped to [0, out); empty if first == last.
Range whole_kernel(int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad, int64_t in) {
  const int64_t room = in - 1 - (kernel - 1) * dilation + pad;  // the last output's start, in input pixels
  const int64_t first = std::min(out, std::max<int64_t>(0, (pad + stride - 1) / stride));
  const int64_t last = room < 0 ? first : std::min(out, room / stride + 1);
  return {first, std::max(first, last)};
}

// Where one image's lines lie, and one row of its output with what belongs to it.
struct RowOperands {
  const float* input;
  int64_t ring_lines;
  float* output;
  const float* residual;
  const float* addend;
};

// Output row y of an image, channels [channel0, channel1). Outputs [inner.first, inner.last) see the whole width of the
// kernel.
void row(const ConvShape& s, const Range& inner, const RowOperands& r, const float* packed, const Epilogue& e,
         int64_t y, int64_t channel0, int64_t channel1) {
  const int64_t in_step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  const int64_t out_w = s.out_w();
  const Range vertical = inside(y, s.kernel_h, s.stride_h, s.dilation_h, s.pad_top, s.in_h);
  const int64_t first_line = y * s.stride_h - s.pad_top + vertical.first * s.dilation_h;
  const int64_t place = vertical.last > vertical.first ? first_line % r.ring_lines : 0;

  DepthwiseRow t;
  t.line_step = s.dilation_h * s.in_w * in_step;
  t.tap_step = s.dilation_w * in_step;
  t.pixel_step = s.stride_w * in_step;
  t.output_step = out_step;
  t.residual_step = e.residual_ld;
  t.out_channels = s.out_channels;
  t.weights_line = s.kernel_w * s.out_channels;
  t.wrap = (r.ring_lines - place + s.dilation_h - 1) / s.dilation_h;
  t.ring = r.ring_lines * s.in_w * in_step;
  t.taps_h = vertical.last - vertical.first;
  t.bias = e.bias;
  t.lo = e.lo;
  t.hi = e.hi;
  t.channel0 = channel0;
  t.channel1 = channel1;
  for (int64_t x = 0; x < out_w;) {
    // Pixels that see the whole width of the kernel go together, those at the borders one by one.
    const bool whole = x >= inner.first && x < inner.last;
    const Range horizontal =
        whole ? Range{0, s.kernel_w} : inside(x, s.kernel_w, s.stride_w, s.dilation_w, s.pad_left, s.in_w);
    const int64_t count = whole ? inner.last - x : 1;
    t.taps_w = horizontal.last - horizontal.first;
    const bool any = t.taps_h > 0 && t.taps_w > 0;
    const int64_t first_pixel = x * s.stride_w - s.pad_left + horizontal.first * s.dilation_w;
    t.input = any ? r.input + (place * s.in_w + first_pixel) * in_step : r.input;
    t.weights = any ? packed + (vertical.first * s.kernel_w + horizontal.first) * s.out_channels : packed;
    if (!any) t.taps_h = 0;
    t.output = r.output + x * out_step;
    t.residual = r.residual ? r.residual + x * e.residual_ld : nullptr;
    HWY_DYNAMIC_DISPATCH(depthwise_pixels)(t, count);
    t.taps_h = vertical.last - vertical.first;
    x += count;
  }
  if (!e.activation) return;
  core_activate(*e.activation, {r.output + channel0, out_step, out_w, channel1 - channel0,
                                r.addend ? r.addend + channel0 : nullptr, e.addend_ld});
}

// Channels of which the input lines under one output row, and the weights, fit in L1.
int64_t chunk_channels(const ConvShape& s) {
  return std::max<int64_t>(1, kChunkFloats / (s.kernel_h * (s.in_w + s.kernel_w)) / 64) * 64;
}

Range whole_width(const ConvShape& s) {
  return whole_kernel(s.out_w(), s.kernel_w, s.stride_w, s.dilation_w, s.pad_left, s.in_w);
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

void depthwise_band(const ConvShape& s, const DepthwiseBand& band, const float* packed, const Epilogue& epilogue) {
  const Range inner = whole_width(s);
  const int64_t chunk = chunk_channels(s), row_pixels = s.out_w();
  const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  for (int64_t c = 0; c < s.out_channels; c += chunk) {
    for (int64_t y = band.row0; y < band.row1; ++y) {
      const int64_t pixel = (y - band.row0) * row_pixels;
      const RowOperands operands{band.input, band.ring_lines, band.output + pixel * out_step,
                                 epilogue.residual ? epilogue.residual + pixel * epilogue.residual_ld : nullptr,
                                 epilogue.addend ? epilogue.addend + pixel * epilogue.addend_ld : nullptr};
      row(s, inner, operands, packed, epilogue, y, c, std::min(s.out_channels, c + chunk));
    }
  }
}

void depthwise(const ConvShape& s, const float* input, const float* packed, float* output, const Epilogue& epilogue,
               ThreadPool& pool) {
  if (s.groups != s.in_channels || s.in_channels == 0 || s.out_channels != s.in_channels) {
    throw Error(ErrorCode::invalid_argument, "depthwise convolution: " + std::to_string(s.groups) + " groups for " +
                                                 std::to_string(s.in_channels) + " input and " +
                                                 std::to_string(s.out_channels) + " output channels");
  }
  const int64_t rows = s.batch * s.out_h();
  if (rows <= 0 || s.out_w() <= 0) return;
  // Blocks of rows that stay in L2 while chunks of channels pass over them: the weights of a chunk and the input rows
  // that neighbouring output rows share then come from L1. (960 channels at 7x7: 51 GFLOP/s without chunks.)
  const int threads = pool.size();
  const Range inner = whole_width(s);
  const int64_t chunk = chunk_channels(s);
  const int64_t out_h = s.out_h(), row_pixels = s.out_w();
  const int64_t image = s.in_h * s.in_w * (s.in_pixel_stride ? s.in_pixel_stride : s.in_channels);
  const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  const int64_t row_floats = std::max<int64_t>(1, s.in_w * s.in_channels * std::min(s.stride_h, s.kernel_h));
  const int64_t height = std::clamp<int64_t>(kBlockFloats / row_floats, 1, (rows + threads - 1) / threads);
  const int64_t blocks = (rows + height - 1) / height;
  // Few rows (a 1-D signal) are cut by channels too, so that the threads get even parts.
  const int64_t chunks = (s.out_channels + chunk - 1) / chunk;
  const int64_t parts = threads > 1 && blocks < 4 * threads ? std::min<int64_t>(4, chunks) : 1;
  pool.parallel_for(blocks * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row0 = i / parts * height, row1 = std::min(rows, row0 + height);
      const int64_t channel0 = chunks * (i % parts) / parts * chunk;
      const int64_t channel1 = std::min(s.out_channels, chunks * (i % parts + 1) / parts * chunk);
      for (int64_t c = channel0; c < channel1; c += chunk) {
        for (int64_t r = row0; r < row1; ++r) {
          const int64_t pixel = r * row_pixels;
          const RowOperands operands{input + r / out_h * image, std::max<int64_t>(s.in_h, 1), output + pixel * out_step,
                                     epilogue.residual ? epilogue.residual + pixel * epilogue.residual_ld : nullptr,
                                     epilogue.addend ? epilogue.addend + pixel * epilogue.addend_ld : nullptr};
          row(s, inner, operands, packed, epilogue, r % out_h, c, std::min(channel1, c + chunk));
        }
      }
      if (epilogue.callback) {
        epilogue.callback(epilogue.context, row0 * s.out_w(), (row1 - row0) * s.out_w(), channel0, channel1 - channel0);
      }
    }
  });
}

}  // namespace camshaft::cpu
#endif
