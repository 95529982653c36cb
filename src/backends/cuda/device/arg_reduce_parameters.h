// What searches for the largest or smallest elements along an axis are given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

struct ArgReduceParameters {
  u32 rows = 0, length = 0;
  u32 lanes = 1;             ///< threads of a row
  u32 splits = 1, part = 0;  ///< parts of a row, each of other blocks, and their elements
  Divisor inner;             ///< elements from one of a row to the next; so many rows begin beside each other
};

}  // namespace camshaft::cuda
