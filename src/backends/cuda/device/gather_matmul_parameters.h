// What products are given whose rows choose their matrix.
#pragma once

#include "backends/cuda/device/numbers.h"

namespace camshaft::cuda {

struct GatherMatMulParameters {
  i64 matrices = 0;
  u32 rows = 0, in = 0, out = 0;
  u32 wide = 0;       ///< whether indices are i64, else i32
  u32 across = 1;     ///< threads along the columns, a power of two: the others of a block share out the sums
  u32 stretches = 1;  ///< blocks along the columns
};

}  // namespace camshaft::cuda
