// The windows of an image added up where they lie: the adjoint of im2col.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// columns[planes, kernel height * kernel width, rows * columns of windows] -> image[planes, height, width].
struct Col2Im {
  int64_t planes = 1, height = 1, width = 1;
  int64_t window_rows = 1, window_columns = 1;  ///< how many windows there are along each axis
  int64_t kernel_height = 1, kernel_width = 1;
  int64_t stride_height = 1, stride_width = 1;
  int64_t dilation_height = 1, dilation_width = 1;
  int64_t pad_top = 0, pad_left = 0;

  void run(ThreadPool& pool, const float* columns, float* image) const;
};

}  // namespace camshaft::cpu
