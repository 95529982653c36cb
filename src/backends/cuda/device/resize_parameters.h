// What interpolation along one to three axes is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Axes from the first to the last, which is counted in chunks of V elements.
struct ResizeParameters {
  u32 chunks = 0, rank = 0;
  Divisor size[8];              ///< of the result
  i64 in[8] = {}, out[8] = {};  ///< strides in elements, of the last axis for a chunk
  u32 axis[3] = {};
  u32 taps[3] = {};          ///< of each element of the result along a resized axis …
  i64 stride[3] = {};        ///< … whose neighbours in the operand are so far apart, in elements
  const i32* index[3] = {};  ///< [size][taps]; -1 stands for `outside`
  const f32* weight[3] = {};
  f64 outside = 0;
};

}  // namespace camshaft::cuda
