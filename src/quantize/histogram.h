// How the numbers of a tensor are distributed, over all batches of a calibration.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels/reduce/magnitudes.h"
#include "base/thread_pool.h"

namespace camshaft {

/// Counts of magnitudes in bins of equal width from 0 on, and the extremes. The first tensor that is not all zero
/// settles the width: its largest magnitude is the end of bin 2,047. What is larger later adds bins of the same width
/// (as NVIDIA's HistogramCalibrator does); beyond 32,768 of them neighbours become one. The result depends on the
/// tensors and their order, not on threads.
class Histogram {
 public:
  static constexpr int64_t first_bins = 2048, most_bins = 32768;

  /// Adds a tensor. `counter` is scratch memory.
  void add(const float* x, int64_t count, ThreadPool& pool, cpu::MagnitudeCounter& counter);
  /// Adds to the summary alone, for who needs no bins: a fraction of the time.
  void add_extremes(const float* x, int64_t count, ThreadPool& pool);

  const cpu::NumberSummary& summary() const { return summary_; }
  /// How many magnitudes are in [b * width, (b + 1) * width), the largest among those of the last bin; zeros are in
  /// bin 0. Infinities and NaN are in none. Empty as long as all are zero.
  std::vector<uint64_t> bins() const;
  /// Of a bin; 0 as long as there are none.
  float width() const { return width_; }

 private:
  void make_room_for(float largest);

  cpu::NumberSummary summary_;
  float width_ = 0, bins_per_unit_ = 0;
  std::vector<uint64_t> bins_;  // without zeros
};

}  // namespace camshaft
