#include "cpu/kernels/pool.h"

#include <algorithm>
#include <limits>

#include "cpu/kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/kernels/pool.cpp"
// clang-format off: the order matters
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// clang-format on

#ifndef CAMSHAFT_CPU_KERNELS_POOL_WINDOW
#define CAMSHAFT_CPU_KERNELS_POOL_WINDOW
namespace camshaft::cpu {
namespace {

// The taps of a window along one axis that lie inside: [first, past); `counted` for the average.
struct Window {
  int64_t start, first, past, counted;
};

Window window_at(int64_t out, int64_t stride, int64_t dilation, int64_t kernel, int64_t size, int64_t pad_before,
                 int64_t pad_after, bool include_pad) {
  const int64_t start = out * stride - pad_before;
  const int64_t first = start >= 0 ? 0 : (-start + dilation - 1) / dilation;
  const int64_t past = start >= size ? 0 : std::min(kernel, (size - start + dilation - 1) / dilation);
  const int64_t room = size + pad_after - start;  // up to the end of the padding
  const int64_t padded = room <= 0 ? 0 : std::min(kernel, (room + dilation - 1) / dilation);
  return {start, std::min(first, kernel), past, include_pad ? padded : std::max<int64_t>(0, past - first)};
}

}  // namespace
}  // namespace camshaft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace camshaft::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::ScalableTag<float>;

template <bool kAverage, class D>
HWY_INLINE hn::Vec<D> pool_vector(D d, const float* taps, int64_t rows, int64_t row_step, int64_t columns,
                                  int64_t column_step, hn::Vec<D> scale) {
  auto result = hn::Set(d, kAverage ? 0.0f : -std::numeric_limits<float>::infinity());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const auto v = hn::LoadU(d, taps + r * row_step + c * column_step);
      result = kAverage ? hn::Add(result, v) : hn::Max(v, result);
    }
  }
  return kAverage ? hn::Mul(result, scale) : result;
}

template <bool kAverage>
void pixels_last(const Pool2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  const Tag d;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t column_step = p.dilation_width * p.channels;
  const int64_t row_step = p.dilation_height * p.in_width * p.channels;
  for (int64_t line = begin; line < end; ++line) {
    const int64_t b = line / p.out_height;
    const Window h = window_at(line % p.out_height, p.stride_height, p.dilation_height, p.kernel_height, p.in_height,
                               p.pad_top, p.pad_bottom, p.count_include_pad);
    const float* top = in + (b * p.in_height + h.start + h.first * p.dilation_height) * p.in_width * p.channels;
    float* to = out + line * p.out_width * p.channels;
    for (int64_t x = 0; x < p.out_width; ++x, to += p.channels) {
      const Window w = window_at(x, p.stride_width, p.dilation_width, p.kernel_width, p.in_width, p.pad_left,
                                 p.pad_right, p.count_include_pad);
      const float* taps = top + (w.start + w.first * p.dilation_width) * p.channels;
      const int64_t rows = h.past - h.first, columns = w.past - w.first;
      const int64_t counted = h.counted * w.counted;
      const float scale = counted > 0 ? 1.0f / static_cast<float>(counted) : 0.0f;
      const auto scales = hn::Set(d, scale);
      int64_t c = 0;
      for (; c + lanes <= p.channels; c += lanes) {
        hn::StoreU(pool_vector<kAverage>(d, taps + c, rows, row_step, columns, column_step, scales), d, to + c);
      }
      for (; c < p.channels; ++c) {
        to[c] = hn::GetLane(
            pool_vector<kAverage>(one, taps + c, rows, row_step, columns, column_step, hn::Set(one, scale)));
      }
    }
  }
}

// One tap added to a row of outputs; the stride as a constant lets the compiler vectorise the loads.
template <bool kAverage, int kStride>
HWY_INLINE void tap_row(const float* in, int64_t stride, int64_t count, float* out) {
  const int64_t step = kStride ? kStride : stride;
#pragma GCC ivdep
  for (int64_t x = 0; x < count; ++x) {
    const float v = in[x * step];
    out[x] = kAverage ? out[x] + v : (v > out[x] ? v : out[x]);
  }
}

// Outputs x for which start + x * stride + offset lies in [0, size): [first, past).
HWY_INLINE void inside(int64_t offset, int64_t stride, int64_t size, int64_t outputs, int64_t& first, int64_t& past) {
  first = offset >= 0 ? 0 : std::min(outputs, (-offset + stride - 1) / stride);
  past = offset >= size ? first : std::max(first, std::min(outputs, (size - offset + stride - 1) / stride));
}

template <bool kAverage>
void lines_first(const Pool2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  // The window's columns that lie inside the input for some output: a window may be far larger than the input.
  const int64_t outside = p.pad_left - (p.out_width - 1) * p.stride_width;
  const int64_t first_column = outside > 0 ? (outside + p.dilation_width - 1) / p.dilation_width : 0;
  const int64_t past_column = std::min(p.kernel_width, (p.in_width + p.pad_left - 1) / p.dilation_width + 1);
  for (int64_t line = begin; line < end; ++line) {
    const float* plane = in + line / p.out_height * p.in_height * p.in_width;
    const Window h = window_at(line % p.out_height, p.stride_height, p.dilation_height, p.kernel_height, p.in_height,
                               p.pad_top, p.pad_bottom, p.count_include_pad);
    float* to = out + line * p.out_width;
    std::fill_n(to, p.out_width, kAverage ? 0.0f : -std::numeric_limits<float>::infinity());
    for (int64_t r = h.first; r < h.past; ++r) {
      const float* row = plane + (h.start + r * p.dilation_height) * p.in_width;
      for (int64_t c = first_column; c < past_column; ++c) {
        const int64_t offset = c * p.dilation_width - p.pad_left;
        int64_t first = 0, past = 0;
        inside(offset, p.stride_width, p.in_width, p.out_width, first, past);
        const float* from = row + offset + first * p.stride_width;
        switch (p.stride_width) {
          case 1:
            tap_row<kAverage, 1>(from, 1, past - first, to + first);
            break;
          case 2:
            tap_row<kAverage, 2>(from, 2, past - first, to + first);
            break;
          default:
            tap_row<kAverage, 0>(from, p.stride_width, past - first, to + first);
        }
      }
    }
    for (int64_t x = 0; kAverage && x < p.out_width; ++x) {
      const Window w = window_at(x, p.stride_width, p.dilation_width, p.kernel_width, p.in_width, p.pad_left,
                                 p.pad_right, p.count_include_pad);
      const int64_t counted = h.counted * w.counted;
      to[x] = counted > 0 ? to[x] * (1.0f / static_cast<float>(counted)) : 0.0f;
    }
  }
}

void pool_lines(const Pool2d& p, int64_t begin, int64_t end, const float* in, float* out) {
  if (p.channels_last) {
    p.average ? pixels_last<true>(p, begin, end, in, out) : pixels_last<false>(p, begin, end, in, out);
  } else {
    p.average ? lines_first<true>(p, begin, end, in, out) : lines_first<false>(p, begin, end, in, out);
  }
}

}  // namespace
}  // namespace camshaft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace camshaft::cpu {

HWY_EXPORT(pool_lines);

void Pool2d::run(ThreadPool& pool, const float* in, float* out) const {
  const int64_t lines = batch * out_height * (channels_last ? 1 : channels);
  const int64_t line = out_width * (channels_last ? channels : 1);
  if (lines == 0 || line == 0) return;
  const int64_t work = line * kernel_height * kernel_width;
  const auto kernel = HWY_DYNAMIC_DISPATCH(pool_lines);
  pool.parallel_for(lines, (32 * 1024 + work - 1) / work,
                    [&](int64_t begin, int64_t end) { kernel(*this, begin, end, in, out); });
}

}  // namespace camshaft::cpu
#endif  // HWY_ONCE
