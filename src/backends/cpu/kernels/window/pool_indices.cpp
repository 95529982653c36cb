#include "backends/cpu/kernels/window/pool_indices.h"

#include <algorithm>

#include "backends/cpu/kernels/targets.h"
#include "backends/cpu/kernels/window/pool_window.h"
#include "base/pieces.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/window/pool_indices.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t most_outputs = 256;  // of a line, at once

// What is known of a line's outputs: the maximum so far, and its position in the plane, -1 before the first.
struct Maxima {
  float value[most_outputs];
  int32_t position[most_outputs];
};

// One tap: of output x the pixel at x * stride. The stride as a constant lets the compiler vectorise the loads.
template <int kStride>
HWY_INLINE void add_tap(const float* in, int64_t any_stride, int64_t count, int32_t position, float* value,
                        int32_t* found) {
  const int64_t stride = kStride ? kStride : any_stride;
#pragma GCC ivdep
  for (int64_t x = 0; x < count; ++x) {
    const float v = in[x * stride], most = value[x];
    const bool take = (found[x] < 0) | (v > most) | ((most != most) & (v == v));  // NaN is passed over
    value[x] = take ? v : most;
    found[x] = take ? position + static_cast<int32_t>(x * stride) : found[x];
  }
}

// The taps of one row of the window for outputs [begin, begin + count).
HWY_INLINE void add_row(const PoolAxis& w, const float* row, int32_t position, int64_t begin, int64_t count,
                        Maxima& maxima) {
  // The columns that lie inside for some output: a window may be far larger than the input.
  const int64_t left = begin * w.stride - w.pad_before, right = left + (count - 1) * w.stride;
  const int64_t first_column = indices_inside(right, w.dilation, w.in, w.kernel).first;
  const int64_t past_column = indices_inside(left, w.dilation, w.in, w.kernel).past;
  for (int64_t c = first_column; c < past_column; ++c) {
    const int64_t offset = c * w.dilation + left;
    const IndexRange inside = indices_inside(offset, w.stride, w.in, count);
    const int64_t column = offset + inside.first * w.stride, outputs = inside.past - inside.first;
    if (outputs <= 0) continue;
    const auto at = position + static_cast<int32_t>(column);
    const auto add = w.stride == 1 ? add_tap<1> : w.stride == 2 ? add_tap<2> : add_tap<0>;
    add(row + column, w.stride, outputs, at, maxima.value + inside.first, maxima.position + inside.first);
  }
}

// Lines are [plane, out depth, out height].
void find_maxima(const PoolIndices& p, int64_t begin, int64_t end, const float* in, int64_t* out) {
  const int64_t plane_pixels = p.depth.in * p.height.in * p.width.in;
  Maxima maxima{};
  for (int64_t line = begin; line < end; ++line) {
    const int64_t first_pixel = line / (p.depth.out * p.height.out) * plane_pixels;
    const Window z = window_at(p.depth, line / p.height.out % p.depth.out, false);
    const Window y = window_at(p.height, line % p.height.out, false);
    for (int64_t x = 0; x < p.width.out; x += most_outputs) {
      const int64_t count = std::min(most_outputs, p.width.out - x);
      std::fill_n(maxima.position, count, -1);
      for (int64_t s = z.first; s < z.past; ++s) {
        for (int64_t r = y.first; r < y.past; ++r) {
          const int64_t row = (z.start + s * p.depth.dilation) * p.height.in + y.start + r * p.height.dilation;
          add_row(p.width, in + first_pixel + row * p.width.in, static_cast<int32_t>(row * p.width.in), x, count,
                  maxima);
        }
      }
      int64_t* to = out + line * p.width.out + x;
      for (int64_t i = 0; i < count; ++i) to[i] = first_pixel + std::max(0, maxima.position[i]);
      if (!p.column_major) continue;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = to[i] - first_pixel, row = at / std::max<int64_t>(1, p.width.in);
        const int64_t iy = row % std::max<int64_t>(1, p.height.in), iz = row / std::max<int64_t>(1, p.height.in);
        to[i] = first_pixel + iz + p.depth.in * (iy + p.height.in * (at - row * p.width.in));
      }
    }
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(find_maxima);

void PoolIndices::run(ThreadPool& pool, const float* in, int64_t* out) const {
  const int64_t lines = planes * depth.out * height.out;
  if (lines == 0 || width.out == 0) return;
  const int64_t work = width.out * depth.kernel * height.kernel * width.kernel;
  const auto kernel = HWY_DYNAMIC_DISPATCH(find_maxima);
  for_pieces(pool, lines, (16 * 1024 + work - 1) / work,
             [&](int64_t begin, int64_t end) { kernel(*this, begin, end, in, out); });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
