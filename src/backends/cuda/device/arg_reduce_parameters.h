// What searches for the largest or smallest elements along an axis are given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

struct ArgReduceParameters {
  u32 rows = 0, length = 0;
  u32 lanes = 1;  ///< threads of a row
  Divisor inner;  ///< elements from one of a row to the next; so many rows begin beside each other
};

}  // namespace camshaft::cuda
