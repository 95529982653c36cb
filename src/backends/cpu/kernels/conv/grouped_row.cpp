#include "backends/cpu/kernels/conv/grouped_row.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/conv/grouped_row.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, which sets the target.
#include "backends/cpu/kernels/gemm/clamp-inl.h"
#include "backends/cpu/kernels/masked_load-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using Vec = hn::Vec<Tag>;
using IndexTag = hn::RebindToSigned<Tag>;

// Input channel `channel` of each lane's group.
template <bool kPermute>
class Channel {
 public:
  HWY_INLINE Channel(const GroupedRow& t, int64_t channel) : offset_(channel) {
    const IndexTag di;
    indices_ = hn::Zero(di);
    if constexpr (kPermute) indices_ = hn::Add(hn::LoadU(di, t.first), hn::Set(di, static_cast<int32_t>(channel)));
  }
  HWY_INLINE Vec of(const float* pixel) const {
    const Tag d;
    if constexpr (kPermute) return hn::TableLookupLanes(hn::LoadU(d, pixel), hn::IndicesFromVec(d, indices_));
    return hn::Set(d, pixel[offset_]);
  }

 private:
  hn::Vec<IndexTag> indices_;
  int64_t offset_;
};

// P neighbouring output pixels. kWidth is the kernel's width, taps side by side, kStride the stride: then an input
// serves all the outputs that it is part of from one load and permutation. Both 0: whatever `t` says.
template <int P, int kWidth, int kStride, bool kPermute>
HWY_NOINLINE void grouped_pixels(const GroupedRow& t, int64_t first) {
  const Tag d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  Vec sum[P];
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) sum[p] = hn::Zero(d);
  const int64_t step = kPermute ? lanes : t.pixel_floats;
  const int64_t stride = kStride ? kStride : t.stride, tap_step = t.dilation * step;
  const float* input = t.input + first * stride * step;
  for (int64_t line = 0; line < t.lines; ++line) {
    const float* HWY_RESTRICT from = input + t.line_offset[line];
    const float* HWY_RESTRICT weights = t.weights + t.line_weights[line];
    for (int64_t c = 0; c < t.channels; ++c) {
      const Channel<kPermute> channel(t, c);
      if constexpr (kWidth != 0) {
        Vec w[kWidth];
#pragma GCC unroll 8
        for (int j = 0; j < kWidth; ++j) w[j] = hn::LoadU(d, weights + j * lanes);
        weights += kWidth * lanes;
#pragma GCC unroll 32
        for (int x = 0; x < (P - 1) * kStride + kWidth; ++x) {
          const Vec value = channel.of(from + x * step);
#pragma GCC unroll 8
          for (int j = 0; j < kWidth; ++j) {
            constexpr int s = kStride ? kStride : 1;
            if (x >= j && (x - j) % s == 0 && (x - j) / s < P)
              sum[(x - j) / s] = hn::MulAdd(value, w[j], sum[(x - j) / s]);
          }
        }
      } else {
        for (int64_t j = 0; j < t.kernel_w; ++j, weights += lanes) {
          const Vec w = hn::LoadU(d, weights);
#pragma GCC unroll 8
          for (int p = 0; p < P; ++p)
            sum[p] = hn::MulAdd(channel.of(from + p * stride * step + j * tap_step), w, sum[p]);
        }
      }
    }
  }
  const bool masked = t.lanes != lanes;
  const auto mask = hn::FirstN(d, static_cast<size_t>(t.lanes));
  const auto load = [&](const float* p) HWY_ATTR { return masked ? masked_load(mask, d, p) : hn::LoadU(d, p); };
  const Vec bias = t.bias ? load(t.bias) : hn::Zero(d), lo = hn::Set(d, t.lo), hi = hn::Set(d, t.hi);
  float* output = t.output + first * t.output_step;
  const float* residual = t.residual ? t.residual + first * t.residual_step : nullptr;
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    Vec y = hn::Add(sum[p], bias);
    if (residual) y = hn::Add(y, load(residual + p * t.residual_step));
    y = clamp_keeping_nan(y, lo, hi);
    if (masked) {
      masked_store(y, mask, d, output + p * t.output_step);
    } else {
      hn::StoreU(y, d, output + p * t.output_step);
    }
  }
}

template <int kWidth, int kStride, bool kPermute, int P = 8>
HWY_INLINE void tile_of(int64_t width, const GroupedRow& t, int64_t first) {
  if constexpr (P > 1) {
    if (width < P) return tile_of<kWidth, kStride, kPermute, P - 1>(width, t, first);
  }
  grouped_pixels<P, kWidth, kStride, kPermute>(t, first);
}

template <int kWidth, int kStride, bool kPermute>
HWY_INLINE void tiles_of(const GroupedRow& t) {
  // Even tiles: 12 pixels are twice 6, 26 are twice 7 and twice 6.
  const int64_t tiles = (t.pixels + 7) / 8, width = t.pixels / tiles, wider = t.pixels % tiles;
  for (int64_t i = 0, first = 0; i < tiles; ++i) {
    const int64_t pixels = width + (i < wider ? 1 : 0);
    tile_of<kWidth, kStride, kPermute>(pixels, t, first);
    first += pixels;
  }
}

template <bool kPermute>
HWY_INLINE void row_of(const GroupedRow& t) {
  if (t.kernel_w == 3 && t.dilation == 1 && t.stride == 1) return tiles_of<3, 1, kPermute>(t);
  if (t.kernel_w == 3 && t.dilation == 1 && t.stride == 2) return tiles_of<3, 2, kPermute>(t);
  tiles_of<0, 0, kPermute>(t);
}

void compute_row(const GroupedRow& t) {
  if (!t.first) return row_of<false>(t);
#if HWY_TARGET != HWY_SCALAR
  row_of<true>(t);
#endif
}

void copy_line(const GroupedLine& l) {
  const Tag d;
  constexpr int64_t lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t u = 0; u < l.units; ++u) {
    float* to = l.to + u * l.unit_step;
    const int64_t count = u + 1 == l.units ? l.last_floats : l.unit_floats;
    const auto tail = hn::FirstN(d, static_cast<size_t>(count % lanes));
    std::fill_n(to, l.first * l.pixel_floats, 0.0f);
    const float* from = l.from + u * l.unit_floats;
    // Whole vectors: what they write beyond a pixel, the next one writes over, or nothing reads.
    for (int64_t x = l.first; x < l.past; ++x, from += l.from_step) {
      float* pixel = to + x * l.pixel_floats;
      int64_t i = 0;
      for (; i + lanes <= count; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, pixel + i);
      if (i < count) hn::StoreU(masked_load(tail, d, from + i), d, pixel + i);
    }
    std::fill(to + l.past * l.pixel_floats, to + l.width * l.pixel_floats, 0.0f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace camshaft::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(compute_row);
HWY_EXPORT(copy_line);

void grouped_row(const GroupedRow& row) {
  HWY_DYNAMIC_DISPATCH(compute_row)(row);
}

void copy_grouped_line(const GroupedLine& line) {
  HWY_DYNAMIC_DISPATCH(copy_line)(line);
}

}  // namespace camshaft::cpu
#endif
