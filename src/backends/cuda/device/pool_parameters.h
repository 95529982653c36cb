// What pooling is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Chunks are V channels of a pixel where channels are last, or single pixels of planes, which are images then. Arrays
/// are by axis: depth, height, width.
struct PoolParameters {
  u32 chunks = 0;
  Divisor channels, width, height, depth;  ///< of the result: chunks of a pixel, and pixels
  i32 in[3] = {1, 1, 1};
  i32 before[3] = {}, after[3] = {};             ///< padding
  i64 image = 0, plane = 0, row = 0, pixel = 1;  ///< strides of the operand in elements
  i64 out_pixel = 1;
};

}  // namespace camshaft::cuda
