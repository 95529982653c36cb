// Random tensors for comparisons with naive loops.
#pragma once

#include <cmath>

#include "ir/tensor.h"
#include "reference/element_io.h"
#include "test_random.h"

namespace camshaft {

/// Elements in [-2, 2) for floats, [-9, 9] or [0, 9] for integers, 0 or 1 for bool.
inline Tensor random_tensor(Random& random, DType dtype, Dims dims) {
  Tensor t(dtype, std::move(dims));
  std::byte* data = t.mutable_data();
  for (int64_t i = 0; i < t.size(); ++i) {
    if (is_floating(dtype)) {
      const double v = random.uniform(-2, 2);
      ops::store_elements(dtype, data, i, 1, 1, &v);
    } else {
      const int64_t v = dtype == DType::boolean ? random.integer(0, 1) : random.integer(is_signed(dtype) ? -9 : 0, 9);
      ops::store_elements(dtype, data, i, 1, 1, &v);
    }
  }
  return t;
}

/// `value` as `dtype` stores it.
inline double rounded(DType dtype, double value) {
  std::byte bytes[8] = {};
  ops::store_elements(dtype, bytes, 0, 1, 1, &value);
  ops::load_elements(dtype, bytes, 0, 1, 1, &value);
  return value;
}

/// One unit in the last place near `value`: what two roundings of sums in different order may differ by.
inline double tolerance(DType dtype, double value) {
  const double unit = dtype == DType::f64 ? 1e-13 : dtype == DType::f32 ? 1.2e-7 : dtype == DType::f16 ? 1e-3 : 8e-3;
  return unit * std::max(1.0, std::abs(value));
}

}  // namespace camshaft
