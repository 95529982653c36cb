#include "backends/cpu/kernels/conv/col2im.h"

#include <algorithm>

#include "base/index_range.h"
#include "base/pieces.h"

namespace camshaft::cpu {
namespace {

void add_row(const float* from, int64_t count, int64_t stride, float* to) {
  if (stride == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * stride] += from[i];
  }
}

}  // namespace

void Col2Im::run(ThreadPool& pool, const float* columns, float* image) const {
  const int64_t windows = window_rows * window_columns;
  const int64_t taps = windows == 0 ? 0 : kernel_height * kernel_width;  // else there are fewer than elements
  const int64_t work = std::max<int64_t>(1, std::max(height * width, taps * windows));
  for_pieces(pool, planes, 16 * 1024 / work + 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      float* to = image + p * height * width;
      std::fill_n(to, height * width, 0.0f);
      for (int64_t t = 0; t < taps; ++t) {
        const float* from = columns + (p * taps + t) * windows;
        const int64_t y0 = t / kernel_width * dilation_height - pad_top;
        const int64_t x0 = t % kernel_width * dilation_width - pad_left;
        const IndexRange rows = indices_inside(y0, stride_height, height, window_rows);
        const auto [first, past] = indices_inside(x0, stride_width, width, window_columns);
        if (first == past) continue;
        for (int64_t row = rows.first; row < rows.past; ++row)
          add_row(from + row * window_columns + first, past - first, stride_width,
                  to + (y0 + row * stride_height) * width + x0 + first * stride_width);
      }
    }
  });
}

}  // namespace camshaft::cpu
