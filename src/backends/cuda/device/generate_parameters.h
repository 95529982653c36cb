// What kernels are given that make tensors of numbers, and running totals.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

struct NumbersParameters {
  u32 count = 0;
  i64 value[64] = {};
};

/// Lines along the middle of [outer, axis, inner].
struct CumulativeParameters {
  u32 lines = 0, axis = 0;
  Divisor inner;
  u32 product = 0, exclusive = 0, reverse = 0;
};

}  // namespace camshaft::cuda
