// A small seeded generator that gives the same numbers on every platform and with every standard library.
#pragma once

#include <cstdint>

namespace camshaft {

/// xoshiro256++ (Blackman and Vigna 2019), its state filled by splitmix64. Not for secrets.
class Random {
 public:
  explicit Random(uint64_t seed);

  /// All 64 bits uniform.
  uint64_t next();
  /// Uniform in [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Uniform in [low, high).
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Uniform in [low, high], both included, without bias. Requires low <= high.
  int64_t integer(int64_t low, int64_t high);
  /// Mean 0, standard deviation 1.
  double normal();

 private:
  uint64_t state_[4];
  double spare_ = 0;  // normal() makes two numbers at a time
  bool has_spare_ = false;
};

}  // namespace camshaft
