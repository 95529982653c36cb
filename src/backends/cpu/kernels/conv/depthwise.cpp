#include "backends/cpu/kernels/conv/depthwise.h"

#include <algorithm>
#include <limits>
#include <string>

#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/kernels/gemm/product_shares.h"
#include "backends/cpu/kernels/targets.h"
#include "base/error.h"
#include "base/index_range.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/depthwise.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/conv/depthwise_row.h"
#include "backends/cpu/kernels/conv/depthwise_slide-inl.h"
#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

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

// Neighbouring outputs of a row that see the same positions of the kernel: all of its width, or one output at the
// image's border.
struct Pixels {
  const float* input;  // first position inside the image, of the first output
  int64_t tap;         // that position
  float* output;
  const float* residual;
  int64_t taps_w;
};

// P outputs, V vectors of channels: about eight sums, so that they hide each other's latency. kWidth is the kernel's
// width, or 0 if only known at run time: the loop over 3 positions costs more than what is in it.
template <int P, int V, int kWidth, bool kTail>
HWY_INLINE void pixels_vector(const DepthwiseRow& r, const Pixels& t, int64_t channel, size_t count) {
  const Tag d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  const auto mask = hn::FirstN(d, count);
  Vec sum[P][V];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) sum[p][v] = hn::Zero(d);
  }
  const int64_t tap_step = r.dilation * r.pixel_step, pixel_step = r.stride * r.pixel_step;
  const float* weights[V];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) weights[v] = r.weights_of(channel + v * lanes) + t.tap * kDepthwiseBlock;
  const auto tap = [&](const float* HWY_RESTRICT pixel, int64_t position) HWY_ATTR {
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Vec w = hn::LoadU(d, weights[v] + position * kDepthwiseBlock);
#pragma GCC unroll 8
      for (int p = 0; p < P; ++p) {
        const Vec x = load_input<kTail>(pixel + p * pixel_step + channel + v * lanes, count);
        sum[p][v] = hn::MulAdd(x, w, sum[p][v]);
      }
    }
  };
  const float* line = t.input;
  for (int64_t i = 0; i < r.taps_h; ++i, line += r.line_step) {
    if (i == r.wrap) line -= r.ring;
    if constexpr (kWidth != 0) {
#pragma GCC unroll 8
      for (int j = 0; j < kWidth; ++j) tap(line + j * tap_step, i * r.kernel_w + j);
    } else {
      for (int64_t j = 0; j < t.taps_w; ++j) tap(line + j * tap_step, i * r.kernel_w + j);
    }
  }
  const auto load = [&](const float* from) HWY_ATTR { return kTail ? masked_load(mask, d, from) : hn::LoadU(d, from); };
  const Vec lo = hn::Set(d, r.lo), hi = hn::Set(d, r.hi);
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v) {
    const int64_t at = channel + v * lanes;
    const Vec bias = r.bias ? load(r.bias + at) : hn::Zero(d);
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      Vec y = hn::Add(sum[p][v], bias);
      if (t.residual) y = hn::Add(y, load(t.residual + p * r.residual_step + at));
      y = clamp_keeping_nan(y, lo, hi);
      if (kTail) {
        masked_store(y, mask, d, t.output + p * r.output_step + at);
      } else {
        hn::StoreU(y, d, t.output + p * r.output_step + at);
      }
    }
  }
}

// `tiles` times P outputs. All tiles in one call: with few channels its prologue would cost as much as the work.
template <int P, int kWidth>
HWY_NOINLINE void pixels(const DepthwiseRow& r, Pixels& t, int64_t tiles) {
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  // One pixel alone (at the image's border) waits for every multiply-add but for its channels.
  constexpr int V = P == 1 ? 8 : P == 2 ? 4 : P <= 4 ? 2 : 1;
  for (int64_t i = 0; i < tiles; ++i) {
    int64_t c = r.channel0;
    if constexpr (V > 1) {
      for (; c + V * lanes <= r.channel1; c += V * lanes) pixels_vector<P, V, kWidth, false>(r, t, c, HWY_LANES(float));
    }
    for (; c + lanes <= r.channel1; c += lanes) pixels_vector<P, 1, kWidth, false>(r, t, c, HWY_LANES(float));
    if (c < r.channel1) pixels_vector<P, 1, kWidth, true>(r, t, c, static_cast<size_t>(r.channel1 - c));
    t.input += P * r.stride * r.pixel_step;
    t.output += P * r.output_step;
    if (t.residual) t.residual += P * r.residual_step;
  }
}

template <int P = 8>
HWY_INLINE void pixels_of(int64_t width, const DepthwiseRow& r, Pixels& t, int64_t tiles) {
  if constexpr (P > 1) {
    if (width < P) return pixels_of<P - 1>(width, r, t, tiles);
  }
  t.taps_w == 3 ? pixels<P, 3>(r, t, tiles) : pixels<P, 0>(r, t, tiles);
}

// Any kernel, stride and padding.
void row_by_pixels(const DepthwiseRow& r) {
  const IndexRange inner = windows_inside(-r.pad_left, r.stride, (r.kernel_w - 1) * r.dilation + 1, r.in_w, r.out_w);
  DepthwiseRow own = r;
  for (int64_t x = 0; x < r.out_w;) {
    // Pixels that see the whole width of the kernel go together, those at the borders one by one.
    const bool whole = x >= inner.first && x < inner.past;
    const IndexRange seen =
        whole ? IndexRange{0, r.kernel_w} : indices_inside(x * r.stride - r.pad_left, r.dilation, r.in_w, r.kernel_w);
    const int64_t count = whole ? inner.past - x : 1;
    const bool any = seen.past > seen.first;
    own.taps_h = any ? r.taps_h : 0;
    const int64_t first_pixel = any ? x * r.stride - r.pad_left + seen.first * r.dilation : 0;
    Pixels t{r.input + first_pixel * r.pixel_step, seen.first, r.output + x * r.output_step,
             r.residual ? r.residual + x * r.residual_step : nullptr, seen.past - seen.first};
    // Even tiles: 12 pixels are twice 6, 26 are twice 7 and twice 6.
    const int64_t tiles = (count + 7) / 8, width = count / tiles, wider = count % tiles;
    if (wider > 0) pixels_of<>(width + 1, own, t, wider);
    pixels_of<>(width, own, t, tiles - wider);
    x += count;
  }
}

void depthwise_row(const DepthwiseRow& r) {
  if (!slide_row(r)) row_by_pixels(r);
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(depthwise_row);

namespace {

// Input rows under one output row, and weights, of a chunk of channels: 32 KiB.
constexpr int64_t kChunkFloats = 8 * 1024;
constexpr int64_t kBlockFloats = 32 * 1024;

// Where one image's lines lie, and one row of its output with what belongs to it.
struct RowOperands {
  const float* input;
  int64_t ring_lines;
  float* output;
  const float* residual;
  const float* addend;
};

// Output row y of an image, channels [channel0, channel1).
void row(const ConvShape& s, const RowOperands& o, const float* packed, const Epilogue& e, int64_t y, int64_t channel0,
         int64_t channel1) {
  const int64_t in_step = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  const int64_t line_floats = s.in_w * in_step;
  const IndexRange seen = indices_inside(y * s.stride_h - s.pad_top, s.dilation_h, s.in_h, s.kernel_h);
  const int64_t first_line = y * s.stride_h - s.pad_top + seen.first * s.dilation_h;
  const int64_t place = seen.past > seen.first ? first_line % o.ring_lines : 0;

  DepthwiseRow r;
  r.input = o.input + place * line_floats;
  r.weights = packed + seen.first * s.kernel_w * kDepthwiseBlock;
  r.output = o.output;
  r.bias = e.bias;
  r.residual = o.residual;
  r.in_w = s.in_w;
  r.out_w = s.out_w();
  r.kernel_w = s.kernel_w;
  r.stride = s.stride_w;
  r.dilation = s.dilation_w;
  r.pad_left = s.pad_left;
  r.taps_h = seen.past - seen.first;
  r.line_step = s.dilation_h * line_floats;
  r.pixel_step = in_step;
  r.output_step = out_step;
  r.residual_step = e.residual_ld;
  r.weight_block = s.kernel_h * s.kernel_w * kDepthwiseBlock;
  r.wrap = (o.ring_lines - place + s.dilation_h - 1) / s.dilation_h;
  r.ring = o.ring_lines * line_floats;
  r.channel0 = channel0;
  r.channel1 = channel1;
  r.lo = e.lo;
  r.hi = e.hi;
  HWY_DYNAMIC_DISPATCH(depthwise_row)(r);
  if (!e.activation) return;
  core_activate(*e.activation, {o.output + channel0, out_step, r.out_w, channel1 - channel0,
                                o.addend ? o.addend + channel0 : nullptr, e.addend_ld});
}

// Channels of which the input lines under one output row, and the weights, fit in L1.
int64_t chunk_channels(const ConvShape& s) {
  return std::max<int64_t>(1, kChunkFloats / (s.kernel_h * (s.in_w + s.kernel_w)) / 64) * 64;
}

}  // namespace

int64_t depthwise_weight_floats(int64_t out_channels, int64_t kernel_h, int64_t kernel_w) {
  return (out_channels + kDepthwiseBlock - 1) / kDepthwiseBlock * kDepthwiseBlock * kernel_h * kernel_w;
}

void pack_depthwise_weights(int64_t out_channels, int64_t kernel_h, int64_t kernel_w, const float* oihw,
                            float* packed) {
  const int64_t points = kernel_h * kernel_w, block = kDepthwiseBlock;
  for (int64_t o = 0; o < (out_channels + block - 1) / block * block; ++o) {
    float* to = packed + o / block * block * points + o % block;
    for (int64_t p = 0; p < points; ++p) to[p * block] = o < out_channels ? oihw[o * points + p] : 0.0f;
  }
}

void unpack_depthwise_weights(int64_t out_channels, int64_t kernel_h, int64_t kernel_w, const float* packed,
                              float* oihw) {
  const int64_t points = kernel_h * kernel_w, block = kDepthwiseBlock;
  for (int64_t o = 0; o < out_channels; ++o) {
    const float* from = packed + o / block * block * points + o % block;
    for (int64_t p = 0; p < points; ++p) oihw[o * points + p] = from[p * block];
  }
}

void depthwise_band(const ConvShape& s, const DepthwiseBand& band, const float* packed, const Epilogue& epilogue) {
  const int64_t chunk = chunk_channels(s), row_pixels = s.out_w();
  const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  for (int64_t c = 0; c < s.out_channels; c += chunk) {
    for (int64_t y = band.row0; y < band.row1; ++y) {
      const int64_t pixel = (y - band.row0) * row_pixels;
      const RowOperands operands{band.input, band.ring_lines, band.output + pixel * out_step,
                                 epilogue.residual ? epilogue.residual + pixel * epilogue.residual_ld : nullptr,
                                 epilogue.addend ? epilogue.addend + pixel * epilogue.addend_ld : nullptr};
      row(s, operands, packed, epilogue, y, c, std::min(s.out_channels, c + chunk));
    }
  }
}

RowChannelShares depthwise_shares(const ConvShape& s, int most) {
  const int64_t rows = s.batch * s.out_h(), points = s.kernel_h * s.kernel_w;
  // A vector of products a cycle, each with a load.
  const double products = static_cast<double>(rows * s.out_w()) * static_cast<double>(s.out_channels * points);
  const double overlap = window_overlap(s.kernel_h, s.dilation_h, s.stride_w, points);
  return {rows, s.out_channels, overlap, useful_threads(products / 16, most)};
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
  const int64_t chunk = chunk_channels(s);
  const int64_t out_h = s.out_h(), row_pixels = s.out_w();
  const int64_t image = s.in_h * s.in_w * (s.in_pixel_stride ? s.in_pixel_stride : s.in_channels);
  const int64_t out_step = s.out_pixel_stride ? s.out_pixel_stride : s.out_channels;
  const RowChannelShares shares = depthwise_shares(s, pool.size());
  pool.run(shares.threads(), [&](int thread) {
    const RowChannelShare own = shares.share(thread);
    if (own.is_empty()) return;
    // Blocks of rows that stay in L2 while chunks of channels pass over them: the weights of a chunk and the input rows
    // that neighbouring output rows share then come from L1. (960 channels at 7x7: 51 GFLOP/s without chunks.)
    const int64_t row_floats = s.in_w * (own.channel1 - own.channel0) * std::min(s.stride_h, s.kernel_h);
    const int64_t height = std::max<int64_t>(1, kBlockFloats / std::max<int64_t>(1, row_floats));
    for (int64_t row0 = own.row0; row0 < own.row1; row0 += height) {
      const int64_t row1 = std::min(own.row1, row0 + height);
      for (int64_t c = own.channel0; c < own.channel1; c += chunk) {
        cancellation_point();
        for (int64_t r = row0; r < row1; ++r) {
          const int64_t pixel = r * row_pixels;
          const RowOperands operands{input + r / out_h * image, std::max<int64_t>(s.in_h, 1), output + pixel * out_step,
                                     epilogue.residual ? epilogue.residual + pixel * epilogue.residual_ld : nullptr,
                                     epilogue.addend ? epilogue.addend + pixel * epilogue.addend_ld : nullptr};
          row(s, operands, packed, epilogue, r % out_h, c, std::min(own.channel1, c + chunk));
        }
      }
      if (epilogue.callback) {
        epilogue.callback(epilogue.context, row0 * row_pixels, (row1 - row0) * row_pixels, own.channel0,
                          own.channel1 - own.channel0);
      }
    }
  });
}

}  // namespace camshaft::cpu
#endif
