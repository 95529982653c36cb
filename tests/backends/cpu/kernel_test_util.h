// What the kernel tests share: workspaces, activations, a run over every instruction set of the machine.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/random_data.h"

namespace camshaft::cpu {

/// Scratch memory of exactly the given size, 64-byte aligned, with canaries around it.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) : bytes_(bytes), memory_(static_cast<size_t>(bytes) + 256, kCanary) {}
  void* get() { return memory_.data() + start(); }
  ~Workspace() {
    bool intact = true;
    for (size_t i = 0; i < start(); ++i) intact &= memory_[i] == kCanary;
    for (size_t i = start() + static_cast<size_t>(bytes_); i < memory_.size(); ++i) intact &= memory_[i] == kCanary;
    EXPECT_TRUE(intact) << "the kernel wrote outside its workspace of " << bytes_ << " bytes";
  }

 private:
  static constexpr unsigned char kCanary = 0x5b;
  size_t start() const { return 64 + (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64; }
  int64_t bytes_;
  std::vector<unsigned char> memory_;
};

inline Activation random_activation(RandomData& random) {
  Activation a;
  a.core = static_cast<Activation::Core>(random.integer(0, 5));
  a.gated = random.coin();
  // A slope bends at 0 and is gated: rounding of a sum decides on which side of a step it is (activation_test.cpp has
  // steps).
  const bool slope = a.core == Activation::Core::slope;
  if (slope) a.gated = true, a.lo = 0.25f * random.real(), a.hi = 0.5f;
  if (random.coin()) return a;
  a.a = random.real();
  if (!slope) a.b = random.real();
  if (a.core == Activation::Core::tanh_cubic) a.cubic = random.real();
  if (a.core == Activation::Core::clamp) a.lo = 0.25f * random.real(), a.hi = 0.5f;
  a.scale = random.real(), a.shift = random.real();
  if (a.gated) a.offset = random.real();
  return a;
}

inline double activation_reference(const Activation& a, double x) {
  const double z = x * (a.core == Activation::Core::tanh_cubic ? a.a + a.cubic * x * x : a.a) + a.b;
  double y = 0;
  switch (a.core) {
    case Activation::Core::clamp:
      y = std::isnan(z) ? z : std::fmin(std::fmax(z, a.lo), a.hi);
      break;
    case Activation::Core::sigmoid:
      y = 1 / (1 + std::exp(-z));
      break;
    case Activation::Core::tanh:
    case Activation::Core::tanh_cubic:
      y = std::tanh(z);
      break;
    case Activation::Core::erf:
      y = std::erf(z);
      break;
    case Activation::Core::slope:
      y = z < 0 ? a.lo : a.hi;
      break;
  }
  y = a.scale * y + a.shift;
  return a.gated ? x * y + a.offset : y;
}

/// Same value within the rounding of `terms` additions of numbers of size `scale`; NaN equals NaN, infinities exactly.
inline bool close_enough(float actual, double expected, double scale, int64_t terms) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == static_cast<float>(expected);
  return std::fabs(actual - expected) <= 1e-7 * (static_cast<double>(terms) + 4.0) * (scale + 1.0);
}

}  // namespace camshaft::cpu
