// How strong a tensor is in each sample of a calibration, which says what steps of one size leave of it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"

namespace camshaft {

/// Mean squares of the finite numbers of each sample.
class SignalPowers {
 public:
  /// Adds a sample. The result depends on its numbers, not on threads.
  void add(const float* x, int64_t count, ThreadPool& pool);
  /// In the samples' order, of those that are not all 0.
  const std::vector<double>& powers() const { return powers_; }

  /// The noise of rounding to steps of a size, as a part of a sample's power: the mean over all samples, at most 1 of
  /// each. `part` of the numbers are not 0, which is always a step, and rounding leaves a twelfth of the square of a
  /// step of those on average. 0 without samples.
  double noise(double step, double part) const;

 private:
  std::vector<double> powers_;
};

}  // namespace camshaft
