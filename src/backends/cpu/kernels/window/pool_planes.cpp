#include "backends/cpu/kernels/window/pool_planes.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_window.h"

#ifndef CAMSHAFT_CPU_POOL_PLANES_ONCE
#define CAMSHAFT_CPU_POOL_PLANES_ONCE
namespace camshaft::cpu {
namespace {
constexpr int64_t longest_line = 1024, widest_window = 256;  // floats; a window from its first tap to its last
// Combined rows, which are to stay in L1 beside what they are made of.
constexpr int64_t most_combined = 3072;

// So few columns are combined with a mask for each of them where windows reach over the ends of lines in more than a
// few places: one by one these took two thirds of the time (3 x 3 taps two apart over 20 x 20 pixels).
constexpr int64_t most_masked_taps = 8;
bool are_ends_masked(const SpatialPool& p) {
  const IndexRange whole = whole_windows(p.width);
  const int64_t ends = p.width.out - std::max<int64_t>(whole.past - whole.first, 0);
  return p.width.stride <= 2 && p.width.kernel <= most_masked_taps && 8 * ends >= p.width.out;
}
}  // namespace
}  // namespace camshaft::cpu
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/pool_planes.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on
#include "backends/cpu/kernels/masked_load-inl.h"
#include "backends/cpu/kernels/window/pool_combine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

// to[i] = from[i + a * outer_step + b * inner_step] combined over `outer` times `inner` taps. Four vectors at a time,
// so that a tap's address is made once for all.
template <bool kAverage>
HWY_INLINE void combine_rows(const float* from, int64_t outer, int64_t outer_step, int64_t inner, int64_t inner_step,
                             int64_t count, float* to) {
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  const auto neutral = hn::Set(d, pool_neutral<kAverage>());
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    hn::Vec<Tag> sum[4] = {neutral, neutral, neutral, neutral};
    for (int64_t a = 0; a < outer; ++a) {
      const float* tap = from + i + a * outer_step;
      for (int64_t b = 0; b < inner; ++b, tap += inner_step) {
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) sum[v] = combine<kAverage>(sum[v], hn::LoadU(d, tap + v * lanes));
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) hn::StoreU(sum[v], d, to + i + v * lanes);
  }
  for (; i < count; i += lanes) {
    const bool is_whole = i + lanes <= count;
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, count - i)));
    auto sum = neutral;
    for (int64_t a = 0; a < outer; ++a) {
      const float* tap = from + i + a * outer_step;
      for (int64_t b = 0; b < inner; ++b, tap += inner_step)
        sum = combine<kAverage>(sum, is_whole ? hn::LoadU(d, tap) : masked_load(mask, d, tap));
    }
    hn::StoreU(sum, d, to + i);
  }
}

// Elements 0, 2, ... of two vectors that follow each other, and 1, 3, ....
HWY_INLINE hn::Vec<Tag> every_second(bool odd, hn::Vec<Tag> low, hn::Vec<Tag> high) {
#if HWY_TARGET == HWY_SCALAR
  return odd ? high : low;
#else
  const Tag d;
  return odd ? hn::ConcatOdd(d, high, low) : hn::ConcatEven(d, high, low);
#endif
}

// to[i] = scale * (from[i * S + k * step] combined over `taps` of k). Reads two vectors beyond the last tap.
template <bool kAverage, int S>
HWY_INLINE void combine_columns(const float* from, int64_t taps, int64_t step, int64_t count, float scale, float* to) {
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  const auto neutral = hn::Set(d, pool_neutral<kAverage>()), scales = hn::Set(d, scale);
  for (int64_t i = 0; i < count; i += lanes, from += S * lanes) {
    auto sum = neutral;
    for (int64_t k = 0; k < taps; ++k) {
      const auto low = hn::LoadU(d, from + k * step);
      if (S == 1) {
        sum = combine<kAverage>(sum, low);
        continue;
      }
      const auto high = hn::LoadU(d, from + k * step + lanes);
      sum = combine<kAverage>(sum, every_second(false, low, high));
      if (step == 1 && k + 1 < taps) sum = combine<kAverage>(sum, every_second(true, low, high)), ++k;
    }
    if (kAverage) sum = hn::Mul(sum, scales);
    if (i + lanes <= count) {
      hn::StoreU(sum, d, to + i);
    } else {
      masked_store(sum, hn::FirstN(d, static_cast<size_t>(count - i)), d, to + i);
    }
  }
}

// Which columns of a window lie inside the image, for each output of a line and of the lines that follow it: a bit
// each, for each tap.
class ColumnMasks {
 public:
  ColumnMasks(const PoolAxis& w, int64_t outputs) {
    for (int64_t c = 0; c < w.kernel; ++c) {
      int64_t column = c * w.dilation - w.pad_before, x = 0;
      for (int64_t i = 0; i < outputs; ++i, ++x, column += w.stride) {
        if (x == w.out) x = 0, column = c * w.dilation - w.pad_before;
        if (column >= 0 && column < w.in) bits_[c][i / 8] |= static_cast<uint8_t>(1U << (i % 8));
      }
    }
  }
  const uint8_t* of(int64_t tap, int64_t output) const { return bits_[tap] + output / 8; }

 private:
  uint8_t bits_[most_masked_taps][most_combined / 8 + 8] = {};  // Highway reads eight bytes of them
};

// to[i] = from[i * S + k * step] combined over those k < taps that lie inside; an average is divided by `others` times
// counted[i], or 0 where that is. Reads two vectors beyond the last tap.
template <bool kAverage, int S>
HWY_INLINE void combine_inside(const float* from, int64_t taps, int64_t step, int64_t count, const ColumnMasks& masks,
                               const float* counted, float others, float* to) {
  const Tag d;
  constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
  for (int64_t i = 0; i < count; i += lanes, from += S * lanes) {
    auto sum = hn::Set(d, pool_neutral<kAverage>());
    for (int64_t k = 0; k < taps; ++k) {
      auto tap = hn::LoadU(d, from + k * step);
      if (S == 2) tap = every_second(false, tap, hn::LoadU(d, from + k * step + lanes));
      // A vector of fewer lanes than a byte has bits begins within one.
      const uint8_t within[8] = {static_cast<uint8_t>(*masks.of(k, i) >> (i % 8))};
      const auto inside = hn::LoadMaskBits(d, lanes >= 8 ? masks.of(k, i) : within);
      sum = hn::IfThenElse(inside, combine<kAverage>(sum, tap), sum);
    }
    if (kAverage) {
      const auto number = hn::Mul(hn::LoadU(d, counted + i), hn::Set(d, others));
      const auto scale = hn::Div(hn::Set(d, 1.0f), number);
      sum = hn::IfThenElseZero(hn::Gt(number, hn::Zero(d)), hn::Mul(sum, scale));
    }
    if (i + lanes <= count) {
      hn::StoreU(sum, d, to + i);
    } else {
      masked_store(sum, hn::FirstN(d, static_cast<size_t>(count - i)), d, to + i);
    }
  }
}

// Lines [begin, end) of [batch, channels, out depth, out height].
template <bool kAverage>
void planes(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  const hn::CappedTag<float, 1> one;
  const PoolAxis& w = p.width;
  const int64_t plane = p.height.in * w.in;
  // The windows at the ends of the first and the last line reach over the buffer's, and vectors a little farther.
  constexpr int64_t margin = widest_window + 64;
  HWY_ALIGN float buffer[most_combined + 2 * margin];
  std::fill_n(buffer, most_combined + 2 * margin, pool_neutral<kAverage>());
  float* const combined = buffer + margin;
  const IndexRange whole = whole_windows(w);
  const auto scale_of = [](int64_t counted) { return counted > 0 ? 1.0f / static_cast<float>(counted) : 0.0f; };
  // As many outputs a line as its columns have: lines follow each other here and there.
  const bool is_masked = are_ends_masked(p), is_flat = w.out * w.stride == w.in;
  const int64_t most_lines = std::min({most_combined / w.in, p.height.out, end - begin});
  const int64_t at_once = is_masked ? (is_flat ? most_lines : 1) * w.out : 0;  // outputs
  const ColumnMasks masks(w, at_once);
  constexpr int64_t most_outputs = std::max(most_combined, longest_line + 2 * widest_window);
  HWY_ALIGN float counted[most_outputs + HWY_LANES(float)];  // columns of the window of each of them
  for (int64_t i = 0; kAverage && i < at_once; ++i)
    counted[i] = i < w.out ? static_cast<float>(window_at(w, i, p.count_include_pad).counted) : counted[i - w.out];
  // The divisions of the windows' rows took as long as all the rest of 5 x 5 pixels.
  constexpr int64_t most_listed = 256;
  Window listed[most_listed];
  const bool is_listed = p.height.out <= most_listed && end - begin >= p.height.out;
  for (int64_t i = 0; is_listed && i < p.height.out; ++i) listed[i] = window_at(p.height, i, p.count_include_pad);
  const auto rows_of = [&](int64_t y) { return is_listed ? listed[y] : window_at(p.height, y, p.count_include_pad); };
  int64_t y0 = begin % p.height.out, depth = begin / p.height.out % p.depth.out,
          image = begin / (p.depth.out * p.height.out);
  Window z = window_at(p.depth, depth, p.count_include_pad);

  for (int64_t line = begin; line < end;) {
    const Window y = rows_of(y0);
    // How many lines from here on see as many rows of the image.
    const int64_t most = std::min({most_lines, p.height.out - y0, end - line});
    int64_t lines = 1;
    for (; lines < most; ++lines) {
      const Window next = rows_of(y0 + lines);
      if (next.first != y.first || next.past != y.past || next.counted != y.counted) break;
    }
    const float* top = in + (image * p.depth.in + z.start + z.first * p.depth.dilation) * plane +
                       (y.start + y.first * p.height.dilation) * w.in;
    const int64_t planes = z.past - z.first, rows = y.past - y.first;
    if (planes == 0 || rows == 0) {
      std::fill_n(combined, lines * w.in, pool_neutral<kAverage>());
    } else {
      const int64_t pieces = p.height.stride == 1 ? 1 : lines, length = lines / pieces * w.in;
      for (int64_t i = 0; i < pieces; ++i)
        combine_rows<kAverage>(top + i * p.height.stride * w.in, planes, p.depth.dilation * plane, rows,
                               p.height.dilation * w.in, length, combined + i * w.in);
    }

    float* to = out + line * w.out;
    const int64_t others = z.counted * y.counted;
    const float scale = kAverage ? scale_of(others * w.kernel) : 1;
    const int64_t pieces = is_flat ? 1 : lines, length = lines / pieces * w.out;
    for (int64_t i = 0; i < pieces; ++i) {
      const float* from = combined + i * w.in - w.pad_before;
      if (is_masked)
        (w.stride == 1 ? combine_inside<kAverage, 1>
                       : combine_inside<kAverage, 2>)(from, w.kernel, w.dilation, length, masks, counted,
                                                      static_cast<float>(others), to + i * w.out);
      else if (w.stride == 1)
        combine_columns<kAverage, 1>(from, w.kernel, w.dilation, length, scale, to + i * w.out);
      else
        combine_columns<kAverage, 2>(from, w.kernel, w.dilation, length, scale, to + i * w.out);
    }
    const auto at_end = [&](int64_t x) HWY_ATTR {
      const Window window = window_at(w, x, p.count_include_pad);
      const auto scales = hn::Set(one, scale_of(others * window.counted));
      const float* first = combined + window.start + window.first * w.dilation;
      for (int64_t i = 0; i < lines; ++i) {
        auto sum = hn::Set(one, pool_neutral<kAverage>());
        for (int64_t c = 0; c < window.past - window.first; ++c)
          sum = combine<kAverage>(sum, hn::LoadU(one, first + i * w.in + c * w.dilation));
        hn::StoreU(kAverage ? hn::Mul(sum, scales) : sum, one, to + i * w.out + x);
      }
    };
    for (int64_t x = 0; x < whole.first && !is_masked; ++x) at_end(x);
    for (int64_t x = whole.past; x < w.out && !is_masked; ++x) at_end(x);
    line += lines;
    if ((y0 += lines) < p.height.out || line == end) continue;
    y0 = 0;
    if (p.depth.out == 1) {
      ++image;
      continue;
    }
    if (++depth == p.depth.out) depth = 0, ++image;
    z = window_at(p.depth, depth, p.count_include_pad);
  }
}

void run_planes(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  p.average ? planes<true>(p, begin, end, in, out) : planes<false>(p, begin, end, in, out);
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(run_planes);

bool can_pool_planes(const SpatialPool& p) {
  const PoolAxis& w = p.width;
  // Windows that see columns beyond an end leave more at both for single elements than is won.
  if (p.channels_last || w.stride > 2 || w.in == 0 || w.in > longest_line || w.pad_before < 0 ||
      w.pad_before >= widest_window || w.kernel > widest_window || w.dilation > widest_window / w.kernel)
    return false;
  const IndexRange whole = whole_windows(w);
  // Lines that are not joined have the padding beside them elsewhere.
  if (are_ends_masked(p) && p.height.stride > 1) return false;
  return (w.out - 1) * w.stride - w.pad_before + w.kernel * w.dilation < w.in + widest_window &&
         (whole.past - whole.first >= w.out / 2 || are_ends_masked(p));
}

void pool_planes(const SpatialPool& problem, int64_t begin, int64_t end, const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(run_planes)(problem, begin, end, in, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
