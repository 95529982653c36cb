// What each ScalarFunction computes, over runs of operands already widened.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ir/ops/scalar_function.h"

namespace camshaft::ops {

/// out[i] = function(a[i], b[i], c[i]); operands beyond the arity are not read. Predicates give 0 or 1. T is double,
/// int64_t or uint64_t. Integers wrap; division and remainder by zero give 0; pow with a negative exponent truncates
/// 1/x; shifts by the width or more, or by a negative count, give 0 (shift_right of a negative number: -1). Throws
/// Error(internal) for a function that T does not have (a transcendental of integers, a bit operation of reals).
template <class T>
void apply(ScalarFunction function, const T* a, const T* b, const T* c, T* out, int64_t count);

/// An operand of sums and products in which integers wrap, without the undefined behaviour of signed overflow.
template <class T>
auto wrap(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return value;
  } else {
    return static_cast<uint64_t>(value);
  }
}

}  // namespace camshaft::ops
