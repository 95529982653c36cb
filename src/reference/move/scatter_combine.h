// What the scattering operators share. Internal to the reference.
#pragma once

#include <cstdint>
#include <type_traits>

#include "ir/ops/move.h"

namespace camshaft::ops {

// Sums and products of signed integers wrap: computed without a sign, where that is defined.
template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  return a + b;
}
template <class T>
T product_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  return a * b;
}

template <class T>
T combine(ScatterKind kind, T a, T b) {
  switch (kind) {
    case ScatterKind::add:
      return sum_of(a, b);
    case ScatterKind::mul:
      return product_of(a, b);
    case ScatterKind::max:
      return a != a || a > b ? a : b;  // NaN if either is NaN
    case ScatterKind::min:
      return a != a || a < b ? a : b;
    case ScatterKind::assign:
      break;
  }
  return b;
}

}  // namespace camshaft::ops
