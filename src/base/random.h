// A small seeded generator that gives the same numbers on every platform and with every standard library.
#pragma once

#include <array>
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
  double second_ = 0;  // normal() makes two numbers at a time
  bool has_second_ = false;
};

/// Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011): a number is a function of seed and position, so that a tensor
/// of random numbers is the same however its elements are shared out among threads. Not for secrets.
class CounterRandom {
 public:
  using Block = std::array<uint32_t, 4>;

  explicit CounterRandom(uint64_t seed) : seed_(seed) {}

  /// The generator itself.
  static Block block(Block counter, std::array<uint32_t, 2> key);
  /// Uniform in [0, 1), a multiple of 2^-bits (1 to 53).
  double uniform(uint64_t position, int bits = 53) const;
  /// Mean 0, standard deviation 1.
  double normal(uint64_t position) const;

 private:
  Block numbers(uint64_t position, uint32_t attempt, uint32_t use) const;

  uint64_t seed_;
};

}  // namespace camshaft
