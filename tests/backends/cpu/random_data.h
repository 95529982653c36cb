// Random numbers as the kernel tests want them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/tensor.h"
#include "test_random.h"

namespace camshaft::cpu {

struct RandomData : Random {
  explicit RandomData(uint64_t seed = test_seed()) : Random(seed) {}

  bool coin() { return integer(0, 1) == 1; }
  float real() { return static_cast<float>(uniform(-1, 1)); }
  /// Uniform in [-1, 1).
  std::vector<float> vector(int64_t n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& x : values) x = real();
    return values;
  }
  /// Normal, with standard deviation `scale`.
  std::vector<float> floats(int64_t n, float scale = 1) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& x : values) x = scale * static_cast<float>(normal());
    return values;
  }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (int64_t i = static_cast<int64_t>(values.size()); i-- > 1;)
      std::swap(values[static_cast<size_t>(i)], values[static_cast<size_t>(integer(0, i))]);
  }
};

/// RandomData::floats as a tensor.
inline Tensor floats(RandomData& data, const Dims& dims, float scale = 1) {
  return Tensor::of(DType::f32, dims, data.floats(element_count(dims), scale));
}

}  // namespace camshaft::cpu
