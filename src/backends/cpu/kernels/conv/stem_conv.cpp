#include "backends/cpu/kernels/conv/stem_conv.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/conv/stem_conv_row.h"
#include "backends/cpu/kernels/targets.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/stem_conv.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/gemm_tile-inl.h"
#include "backends/cpu/kernels/gemm/gemm_tile_even-inl.h"
#include "backends/cpu/kernels/pointwise/activation-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {

// P pixels from x on, NV vectors of output channels. Neighbouring pixels lie one float apart. With `kHalf` two of them
// share a sum for the last vector, of which half exists (as in gemm_tile_even-inl.h).
template <int P, int NV, bool kHalf>
HWY_NOINLINE void stem_tile(const StemConvRow& t, const TileArgs& args, int64_t x) {
  const TileTag d;
  constexpr int lanes = tile_lanes(), kWhole = kHalf ? NV - 1 : NV;
  TileVec sum[P][NV];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 16
    for (int v = 0; v < NV; ++v) sum[p][v] = hn::Zero(d);
  }
  // Of the next tile: this one is done in less than memory takes (a MobileNet's first layer with nothing in cache: 183
  // us with this tile's, 140 with the next one's).
  prefetch_tile<P, NV, true>(args, args.c + P * args.ldc, args.ldc);
  const float* HWY_RESTRICT b = args.b;
  for (int64_t i = 0; i < t.lines; ++i) {
    const float* line = t.line[i] + x;
    for (int64_t k = 0; k < t.depth; ++k, b += NV * lanes) {
      const float* HWY_RESTRICT a = line + t.offsets[k];
      TileVec bv[NV];
      [[maybe_unused]] TileVec before = hn::Zero(d);
#pragma GCC unroll 16
      for (int v = 0; v < kWhole; ++v) bv[v] = hn::LoadU(d, b + v * lanes);
#if CAMSHAFT_SHARES_VECTORS
      if constexpr (kHalf) bv[NV - 1] = load_half_twice(b + (NV - 1) * lanes);
#endif
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) {
        const TileVec av = hn::Set(d, a[p]);
#pragma GCC unroll 16
        for (int v = 0; v < kWhole; ++v) sum[p][v] = hn::MulAdd(av, bv[v], sum[p][v]);
#if CAMSHAFT_SHARES_VECTORS
        if constexpr (kHalf) {
          TileVec& pair = sum[p / 2 * 2][NV - 1];
          if (p % 2 == 1) {
            pair = hn::MulAdd(hn::ConcatUpperLower(d, av, before), bv[NV - 1], pair);
          } else if (p + 1 == P) {
            pair = hn::MulAdd(av, bv[NV - 1], pair);
          } else {
            before = av;
          }
        }
#endif
      }
    }
  }
#if CAMSHAFT_SHARES_VECTORS
  if constexpr (kHalf) part_pairs<P, NV>(sum);
#endif
  finish_tile<P, NV>(args, sum);
}

// All pixels of the row: tiles of as many as the registers hold, the rest in smaller ones.
template <int NV, int P, bool kHalf>
HWY_INLINE int64_t stem_tiles(const StemConvRow& t, TileArgs& args, const Epilogue& e, int64_t columns, int64_t x) {
  const int64_t first = args.row0;
  for (; x + P <= t.pixels; x += P) {
    args.row0 = first + x;
    stem_tile<P, NV, kHalf>(t, args, x);
    if (!e.activation) continue;
    ActivationBlock block{args.c + args.row0 * args.ldc, args.ldc, P, columns, nullptr, e.addend_ld};
    if (e.addend) block.addend = e.addend + args.row0 * e.addend_ld;
    activate(*e.activation, block);
  }
  args.row0 = first;
  return x;
}

template <int NV, bool kHalf = false>
void stem_panel(const StemConvRow& t, TileArgs& args, const Epilogue& e, int64_t columns) {
  int64_t x = 0;
  constexpr int pixels = kTiles.stem_conv.rows[NV - 1];
  x = stem_tiles<NV, pixels, kHalf>(t, args, e, columns, x);
  if constexpr (pixels > 8) x = stem_tiles<NV, 8, kHalf>(t, args, e, columns, x);
  if constexpr (pixels > 4) x = stem_tiles<NV, 4, kHalf>(t, args, e, columns, x);
  x = stem_tiles<NV, 2, kHalf>(t, args, e, columns, x);
  stem_tiles<NV, 1, kHalf>(t, args, e, columns, x);
}

// The panel of `vectors`, NV at most.
template <int NV>
HWY_INLINE void panel_of_vectors(int64_t vectors, const StemConvRow& t, TileArgs& args, const Epilogue& e,
                                 int64_t columns) {
  if (vectors < NV) {
    if constexpr (NV > 1) panel_of_vectors<NV - 1>(vectors, t, args, e, columns);
    return;
  }
  if constexpr (CAMSHAFT_SHARES_VECTORS && NV > 1) {
    if (args.tail_lanes <= tile_lanes() / 2) return stem_panel<NV, true>(t, args, e, columns);
  }
  stem_panel<NV>(t, args, e, columns);
}

void stem_row_target(const StemConvRow& t, const float* packed, float* output, const Epilogue& e) {
  constexpr int64_t lanes = tile_lanes();
  const PackedLayout layout{t.lines * t.depth, t.channels, kTileVectors * tile_lanes(), tile_lanes()};
  constexpr float infinity = std::numeric_limits<float>::infinity();
  TileArgs args{};
  args.ldc = t.out_step;
  args.row0 = t.first_pixel;
  args.last = true;
  args.lo = e.lo;
  args.hi = e.hi;
  args.clamp = e.lo != -infinity || e.hi != infinity;
  for (int64_t panel = 0; panel < layout.panels(); ++panel) {
    const int64_t col0 = panel * layout.width, columns = std::min<int64_t>(layout.width, layout.n - col0);
    const int64_t vectors = (columns + lanes - 1) / lanes;
    args.tail_lanes = static_cast<int>(columns - (vectors - 1) * lanes);
    args.b = packed + layout.offset(panel);
    args.c = output + col0;
    args.bias = e.bias ? e.bias + col0 : nullptr;
    args.residual_count = e.residual ? 1 : 0;
    if (e.residual) args.residuals[0] = {e.residual + col0, e.residual_ld};
    Epilogue of_panel = e;
    if (e.addend) of_panel.addend += col0;
    panel_of_vectors<kTileVectors>(vectors, t, args, of_panel, columns);
  }
}

// Elements i of a line, i < count, go to to[i % ways] + i / ways.
void deal_target(const float* from, int64_t count, int64_t ways, float* const* to) {
  const TileTag d;
  constexpr int64_t lanes = tile_lanes();
  int64_t i = 0, at = 0;
  if (ways == 2) {
    for (; i + 2 * lanes <= count; i += 2 * lanes, at += lanes) {
      TileVec v0, v1;
      hn::LoadInterleaved2(d, from + i, v0, v1);
      hn::StoreU(v0, d, to[0] + at);
      hn::StoreU(v1, d, to[1] + at);
    }
  } else if (ways == 4) {
    for (; i + 4 * lanes <= count; i += 4 * lanes, at += lanes) {
      TileVec v0, v1, v2, v3;
      hn::LoadInterleaved4(d, from + i, v0, v1, v2, v3);
      hn::StoreU(v0, d, to[0] + at);
      hn::StoreU(v1, d, to[1] + at);
      hn::StoreU(v2, d, to[2] + at);
      hn::StoreU(v3, d, to[3] + at);
    }
  }
  for (; i < count; ++at) {
    for (int64_t way = 0; way < ways && i < count; ++way, ++i) to[way][at] = from[i];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(stem_row_target);
HWY_EXPORT(deal_target);

namespace {
// A stride has as many planes; that of images is 4 at most, and of more the planes would be mostly their own ends.
constexpr int64_t kMostWays = 64;
}  // namespace

StemConvPlan::StemConvPlan(const ConvShape& s, bool channels_first) : shape_(s) {
  if (s.groups != 1 || s.in_d != 1 || s.kernel_d != 1 || s.kernel_h < 1 || s.kernel_w < 1 || s.stride_h < 1 ||
      s.stride_w < 1 || s.stride_w > kMostWays || s.dilation_h < 1 || s.dilation_w < 1)
    throw Error(ErrorCode::invalid_argument, "stem convolution: not a plain convolution over two axes");
  out_h_ = s.out_h();
  out_w_ = s.out_w();
  const int64_t pixel = s.in_pixel_stride ? s.in_pixel_stride : s.in_channels;
  x_step_ = channels_first ? 1 : pixel;
  channel_step_ = channels_first ? s.in_h * s.in_w : 1;
  line_step_ = s.in_w * x_step_;
  image_step_ = channels_first ? s.in_channels * channel_step_ : s.in_h * line_step_;
  if (out_h_ <= 0 || out_w_ <= 0) return;
  const int64_t width = s.in_w + s.pad_left + s.pad_right;
  // A plane is padded to cache lines: no two lie in one.
  pitch_ = ((width + s.stride_w - 1) / s.stride_w + 15) / 16 * 16;
  line_floats_ = s.in_channels * s.stride_w * pitch_;
  ring_lines_ = (s.kernel_h - 1) * s.dilation_h + 1;
  thread_bytes_ = (ring_lines_ * line_floats_ * 4 + s.kernel_h * static_cast<int64_t>(sizeof(float*)) + 63) / 64 * 64;
  const auto place = [&](int64_t column) { return column % s.stride_w * pitch_ + column / s.stride_w; };
  const int64_t begin =
      std::clamp<int64_t>(s.pad_left, 0, width);  // columns [begin, end) of the padded line are inside
  const int64_t end = std::clamp<int64_t>(s.in_w + s.pad_left, begin, width);
  first_column_ = begin - s.pad_left;
  columns_ = end - begin;
  for (int64_t way = 0; way < s.stride_w; ++way) ways_.push_back(place(begin + way));
  for (int64_t column = 0; column < begin; ++column) padding_.push_back(place(column));
  for (int64_t column = end; column < width; ++column) padding_.push_back(place(column));
  for (int64_t j = 0; j < s.kernel_w; ++j) {
    const int64_t column = j * s.dilation_w;
    for (int64_t c = 0; c < s.in_channels; ++c) offsets_.push_back(c * s.stride_w * pitch_ + place(column));
  }
}

// Line `line` of the padded image, as planes.
void StemConvPlan::copy_line(const float* image, int64_t line, float* to) const {
  const ConvShape& s = shape_;
  const int64_t y = line - s.pad_top;
  if (y < 0 || y >= s.in_h) {
    std::fill_n(to, line_floats_, 0.0f);
    return;
  }
  const int64_t ways = s.stride_w;
  const float* from = image + y * line_step_ + first_column_ * x_step_;
  for (int64_t c = 0; c < s.in_channels; ++c, to += ways * pitch_, from += channel_step_) {
    for (const int64_t at : padding_) to[at] = 0.0f;
    if (x_step_ != 1) {
      for (int64_t way = 0; way < std::min(ways, columns_); ++way) {
        float* plane = to + ways_[static_cast<size_t>(way)];
        for (int64_t i = way; i < columns_; i += ways) *plane++ = from[i * x_step_];
      }
    } else if (ways == 1) {
      std::memcpy(to + ways_[0], from, static_cast<size_t>(columns_) * sizeof(float));
    } else {
      float* planes[kMostWays];
      for (size_t way = 0; way < ways_.size(); ++way) planes[way] = to + ways_[way];
      HWY_DYNAMIC_DISPATCH(deal_target)(from, columns_, ways, planes);
    }
  }
}

// Has a line in cache by the time that it is copied: each is too short for the processor to foresee it.
void StemConvPlan::prefetch_line(const float* image, int64_t line) const {
  const int64_t y = line - shape_.pad_top;
  if (y < 0 || y >= shape_.in_h) return;
  const float* from = image + y * line_step_;
  const int64_t planes = x_step_ == 1 ? shape_.in_channels : 1;
  for (int64_t c = 0; c < planes; ++c, from += channel_step_)
    for (int64_t i = 0; i < line_step_; i += 16) __builtin_prefetch(from + i, 0, 3);
}

StemConvPlan::StemConvPlan(const ConvShape& shape, bool channels_first, const SpatialPool& pool)
    : StemConvPlan(shape, channels_first) {
  pool_ = pool;
  shape_.out_pixel_stride = 0;
  if (out_h_ <= 0 || out_w_ <= 0) return;
  // Rows that two bands see are moved; longer bands move fewer, and should leave room in L2.
  constexpr int64_t band_floats = 40 * 1024;
  const PoolAxis& y = pool.height;
  const int64_t seen = (y.kernel - 1) * y.dilation + 1, row = out_w_ * shape.out_channels;
  const int64_t more = std::clamp<int64_t>((band_floats / std::max<int64_t>(row, 1) - seen) / y.stride, 0, 15);
  band_rows_ = std::min(out_h_, seen + more * y.stride);
  band_offset_ = thread_bytes_;
  thread_bytes_ += (band_rows_ * row * 4 + 63) / 64 * 64;
}

// What one thread does of an image.
class StemConvPlan::Worker {
 public:
  Worker(const StemConvPlan& plan, const float* image, const float* packed, const Epilogue& epilogue, char* memory)
      : plan_(plan), s_(plan.shape_), image_(image), packed_(packed), epilogue_(epilogue) {
    ring_ = reinterpret_cast<float*>(memory);
    lines_ = reinterpret_cast<const float**>(memory + plan.ring_lines_ * plan.line_floats_ * 4);
    row_.line = lines_;
    row_.lines = s_.kernel_h;
    row_.offsets = plan.offsets_.data();
    row_.depth = static_cast<int64_t>(plan.offsets_.size());
    row_.pixels = plan.out_w_;
    row_.channels = s_.out_channels;
    row_.out_step = s_.out_pixel_stride ? s_.out_pixel_stride : s_.out_channels;
  }

  // Rows [y0, y1) of the convolution; later calls go on below. Row y0 is `first_pixel` of the output.
  void convolve(int64_t y0, int64_t y1, int64_t first_pixel, float* output) {
    for (int64_t y = y0; y < y1; ++y, first_pixel += plan_.out_w_) {
      cancellation_point();
      const int64_t first = y * s_.stride_h, lines = plan_.ring_lines_;
      for (next_ = std::max(next_, first); next_ < first + lines; ++next_)
        plan_.copy_line(image_, next_, ring_ + next_ % lines * plan_.line_floats_);
      for (int64_t line = std::max(next_, first + s_.stride_h); line < first + s_.stride_h + lines; ++line)
        plan_.prefetch_line(image_, line);
      for (int64_t i = 0; i < s_.kernel_h; ++i)
        lines_[i] = ring_ + (first + i * s_.dilation_h) % lines * plan_.line_floats_;
      row_.first_pixel = first_pixel;
      HWY_DYNAMIC_DISPATCH(stem_row_target)(row_, packed_, output, epilogue_);
      if (epilogue_.callback) epilogue_.callback(epilogue_.context, first_pixel, plan_.out_w_, 0, s_.out_channels);
    }
  }

  // Rows [y0, y1) of what is pooled, the first of which lies at `output`.
  void pool(int64_t y0, int64_t y1, float* band, float* output) {
    SpatialPool part = *plan_.pool_;
    const PoolAxis whole = part.height;
    const int64_t seen = (whole.kernel - 1) * whole.dilation + 1, row = plan_.out_w_ * s_.out_channels;
    const int64_t step = part.width.out * (part.out_pixel_stride ? part.out_pixel_stride : part.channels);
    const int64_t rows = std::max<int64_t>(1, (plan_.band_rows_ - seen) / whole.stride + 1);
    const auto clip = [&](int64_t y) { return std::clamp<int64_t>(y, 0, plan_.out_h_); };
    int64_t begin = 0, end = 0;  // rows of the convolution that the band holds
    for (int64_t y = y0; y < y1; y += rows) {
      const int64_t count = std::min(rows, y1 - y), top = y * whole.stride - whole.pad_before;
      const int64_t from = clip(top), to = std::max(from, clip(top + (count - 1) * whole.stride + seen));
      const int64_t kept = std::max<int64_t>(0, end - std::max(from, begin));
      if (kept > 0)
        std::memmove(band, band + (end - kept - begin) * row, static_cast<size_t>(kept * row) * sizeof(float));
      if (kept == 0) end = from;
      convolve(end, to, kept * plan_.out_w_, band);
      begin = from;
      end = to;
      part.height = whole;
      part.height.in = to - from;
      part.height.out = count;
      part.height.pad_before = from - top;
      part.run_lines(0, count, band, output + (y - y0) * step);
    }
  }

 private:
  const StemConvPlan& plan_;
  const ConvShape& s_;
  const float* image_;
  const float* packed_;
  const Epilogue& epilogue_;
  float* ring_;
  const float** lines_;
  StemConvRow row_;
  int64_t next_ = 0;  // line of the padded image that is copied next
};

void stem_conv(const StemConvPlan& plan, const float* input, const float* packed, float* output,
               const Epilogue& epilogue, ThreadPool& pool, void* workspace) {
  const int64_t out_h = plan.rows(), rows = plan.shape_.batch * out_h;
  if (rows <= 0 || plan.out_h_ <= 0 || plan.out_w_ <= 0 || plan.shape_.out_channels == 0) return;
  const int threads = pool.size();
  pool.run([&](int thread) {
    const int64_t begin = rows * thread / threads, end = rows * (thread + 1) / threads;
    for (int64_t row = begin; row < end;) {
      const int64_t image = row / out_h, stop = std::min(end, (image + 1) * out_h);
      char* memory = static_cast<char*>(workspace) + thread * plan.thread_bytes_;
      StemConvPlan::Worker worker(plan, input + image * plan.image_step_, packed, epilogue, memory);
      const int64_t y0 = row - image * out_h, y1 = stop - image * out_h;
      if (plan.pool_) {
        const SpatialPool& p = *plan.pool_;
        const int64_t step = p.width.out * (p.out_pixel_stride ? p.out_pixel_stride : p.channels);
        worker.pool(y0, y1, reinterpret_cast<float*>(memory + plan.band_offset_), output + row * step);
      } else {
        worker.convolve(y0, y1, row * plan.out_w_, output);
      }
      row = stop;
    }
  });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
