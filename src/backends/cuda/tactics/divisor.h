// Division: of sizes into pieces, and by a number that a kernel is given, as device/scalar.cuh has it.
#pragma once

#include <bit>
#include <cstdint>

namespace camshaft::cuda {

/// a / b, rounded up; of what is cut into pieces.
constexpr int64_t quotient_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// The parameter Divisor of kernels. Source: Granlund & Montgomery, "Division by Invariant Integers using
/// Multiplication", 1994.
struct Divisor {
  uint32_t value = 1, multiplier = 1, shift = 0;

  Divisor() = default;
  /// `value` is at least 1.
  explicit Divisor(uint32_t value)
      : value(value), shift(static_cast<uint32_t>(value <= 1 ? 0 : std::bit_width(value - 1))) {
    multiplier = static_cast<uint32_t>((((uint64_t{1} << shift) - value) << 32) / value + 1);
  }
};

}  // namespace camshaft::cuda
