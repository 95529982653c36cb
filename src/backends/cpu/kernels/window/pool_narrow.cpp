#include "backends/cpu/kernels/window/pool_narrow.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_window.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/pool_narrow.cpp"
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

#if HWY_TARGET != HWY_SCALAR
using Tag = hn::ScalableTag<float>;
constexpr auto lanes = static_cast<int64_t>(HWY_LANES(float));
constexpr int64_t most_taps = 16;  // columns of a window
constexpr int64_t most_rows = 256;

// One or two vectors of a line's pixels, the last lane of which is none, and as many of its results.
template <bool kAverage, int kIn, int kOut>
void lines_of(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const PoolAxis& w = p.width;
  const auto neutral = hn::Set(d, pool_neutral<kAverage>());
  using Index = decltype(hn::SetTableIndices(d, static_cast<const int32_t*>(nullptr)));
  // Where each result's taps lie in a line. Those outside see the lane that is no pixel.
  Index places[most_taps][kOut];
  hn::Mask<Tag> in_last[most_taps][kOut];
  HWY_ALIGN float counted[kOut * lanes];  // columns of each result's window
  HWY_ALIGN int32_t from[lanes];
  for (int64_t c = 0; c < w.kernel; ++c)
    for (int64_t v = 0; v < kOut; ++v) {
      for (int64_t i = 0; i < lanes; ++i) {
        const int64_t column = (v * lanes + i) * w.stride - w.pad_before + c * w.dilation;
        from[i] = static_cast<int32_t>(column >= 0 && column < w.in ? column : kIn * lanes - 1);
      }
      in_last[c][v] = hn::RebindMask(d, hn::Gt(hn::Load(di, from), hn::Set(di, lanes - 1)));
      for (int32_t& lane : from) lane %= lanes;
      places[c][v] = hn::SetTableIndices(d, from);
    }
  for (int64_t i = 0; kAverage && i < kOut * lanes; ++i)
    counted[i] = i < w.out ? static_cast<float>(window_at(w, i, p.count_include_pad).counted) : 0.0F;
  const auto pixels = hn::FirstN(d, static_cast<size_t>(w.in - (kIn - 1) * lanes));
  const auto results = hn::FirstN(d, static_cast<size_t>(w.out - (kOut - 1) * lanes));

  // The divisions of the windows' rows would take longer than a line.
  Window listed[most_rows];
  const bool is_listed = p.height.out <= most_rows && end - begin >= p.height.out;
  for (int64_t i = 0; is_listed && i < p.height.out; ++i) listed[i] = window_at(p.height, i, p.count_include_pad);
  const int64_t plane = p.height.in * w.in, plane_step = p.depth.dilation * plane, row_step = p.height.dilation * w.in;
  int64_t row = begin % p.height.out, depth = begin / p.height.out % p.depth.out,
          image = begin / (p.depth.out * p.height.out);
  Window z = window_at(p.depth, depth, p.count_include_pad);
  int64_t scaled_others = -1;
  hn::Vec<Tag> scales[kOut];
  for (int64_t line = begin; line < end; ++line) {
    const Window y = is_listed ? listed[row] : window_at(p.height, row, p.count_include_pad);
    const float* top = in + (image * p.depth.in + z.start + z.first * p.depth.dilation) * plane +
                       (y.start + y.first * p.height.dilation) * w.in;
    const int64_t rows = y.past - y.first;
    hn::Vec<Tag> first = neutral, last = neutral;
    for (int64_t a = z.first; a < z.past; ++a, top += plane_step) {
      const float* at = top;
      for (int64_t r = 0; r < rows; ++r, at += row_step) {
        if constexpr (kIn == 2) first = combine<kAverage>(first, hn::LoadU(d, at));
        last = combine<kAverage>(last, masked_load(pixels, d, at + (kIn - 1) * lanes));
      }
    }
    last = hn::IfThenElse(pixels, last, neutral);

    hn::Vec<Tag> sum[kOut];
#pragma GCC unroll 2
    for (int v = 0; v < kOut; ++v) sum[v] = neutral;
    for (int64_t c = 0; c < w.kernel; ++c) {
#pragma GCC unroll 2
      for (int v = 0; v < kOut; ++v) {
        auto tap = hn::TableLookupLanes(last, places[c][v]);
        if constexpr (kIn == 2) tap = hn::IfThenElse(in_last[c][v], tap, hn::TableLookupLanes(first, places[c][v]));
        sum[v] = combine<kAverage>(sum[v], tap);
      }
    }
    if constexpr (kAverage) {
      if (const int64_t others = z.counted * y.counted; others != scaled_others) {
        scaled_others = others;
        const auto factor = hn::Set(d, static_cast<float>(others));
#pragma GCC unroll 2
        for (int v = 0; v < kOut; ++v) {
          const auto number = hn::Mul(hn::Load(d, counted + v * lanes), factor);
          scales[v] = hn::IfThenElseZero(hn::Gt(number, hn::Zero(d)), hn::Div(hn::Set(d, 1.0F), number));
        }
      }
#pragma GCC unroll 2
      for (int v = 0; v < kOut; ++v) sum[v] = hn::Mul(sum[v], scales[v]);
    }
    float* to = out + line * w.out;
    if constexpr (kOut == 2) hn::StoreU(sum[0], d, to);
    masked_store(sum[kOut - 1], results, d, to + (kOut - 1) * lanes);

    if (++row < p.height.out) continue;
    row = 0;
    if (++depth == p.depth.out) depth = 0, ++image;
    if (p.depth.out > 1 && line + 1 < end) z = window_at(p.depth, depth, p.count_include_pad);
  }
}

template <bool kAverage>
void lines(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  const bool is_short = p.width.in < lanes, has_few = p.width.out <= lanes;
  if (is_short)
    has_few ? lines_of<kAverage, 1, 1>(p, begin, end, in, out) : lines_of<kAverage, 1, 2>(p, begin, end, in, out);
  else
    has_few ? lines_of<kAverage, 2, 1>(p, begin, end, in, out) : lines_of<kAverage, 2, 2>(p, begin, end, in, out);
}

bool narrow_lines(const SpatialPool& p, int64_t begin, int64_t end, const float* in, float* out) {
  const PoolAxis& w = p.width;
  if (p.channels_last || w.in < 1 || w.in >= 2 * lanes || w.out < 1 || w.out > 2 * lanes || w.kernel > most_taps)
    return false;
  p.average ? lines<true>(p, begin, end, in, out) : lines<false>(p, begin, end, in, out);
  return true;
}
#else
bool narrow_lines(const SpatialPool&, int64_t, int64_t, const float*, float*) {
  return false;
}
#endif

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(narrow_lines);

bool pool_narrow(const SpatialPool& problem, int64_t begin, int64_t end, const float* in, float* out) {
  return HWY_DYNAMIC_DISPATCH(narrow_lines)(problem, begin, end, in, out);
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
