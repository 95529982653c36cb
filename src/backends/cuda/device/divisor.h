// Division of 32-bit numbers by one that many threads share: a product and a shift.
#pragma once

#include "backends/cuda/device/numbers.h"

namespace camshaft::cuda {

/// Source: Granlund & Montgomery, "Division by Invariant Integers using Multiplication", 1994, figure 4.1. Kernels
/// divide by divide() of device/scalar.cuh.
struct Divisor {
  u32 value = 1, multiplier = 1;
  u32 shift = 0;  ///< ceil(log2(value))

  Divisor() = default;
  /// `value` is at least 1.
  constexpr explicit Divisor(u32 value) : value(value) {
    while (shift < 32 && u64(1) << shift < value) ++shift;
    multiplier = u32((((u64(1) << shift) - value) << 32) / value + 1);
  }
};

}  // namespace camshaft::cuda
