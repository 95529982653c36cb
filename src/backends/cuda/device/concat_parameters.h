// What putting tensors side by side is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// A part as [outer, rows, row]: strides in elements, that of neighbours in a row is 1.
struct ConcatPart {
  const void* data = nullptr;
  i64 in_outer = 0, in_row = 0, out_outer = 0, out_row = 0;
  i64 start = 0;  ///< in the result
  u32 first = 0;  ///< of its chunks among those of all parts
  Divisor row, rows;
};
struct ConcatParameters {
  u32 count = 0, chunks = 0;
  ConcatPart part[16];
};

}  // namespace camshaft::cuda
