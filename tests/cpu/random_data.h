// Seeded data for the kernel tests.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace camshaft::cpu {

struct RandomData {
  explicit RandomData(unsigned seed) : random(seed), trace(__FILE__, __LINE__, "seed " + std::to_string(seed)) {}

  std::vector<float> floats(int64_t n, float scale = 1) {
    std::vector<float> values(static_cast<size_t>(n));
    for (float& x : values) x = scale * normal(random);
    return values;
  }
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }

  std::mt19937 random;
  std::normal_distribution<float> normal;
  testing::ScopedTrace trace;  // prints the seed with every failure
};

}  // namespace camshaft::cpu
