// What a tensor's numbers are like: their extremes, how many are special, and how their magnitudes are distributed.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Of the numbers seen so far; extremes are those of the finite ones.
struct NumberSummary {
  float min = std::numeric_limits<float>::infinity(), max = -std::numeric_limits<float>::infinity();
  int64_t count = 0, zeros = 0, nans = 0, infinities = 0;

  int64_t finite() const { return count - nans - infinities; }
  /// The largest finite magnitude; 0 where there is none.
  float largest() const;
  void add(const NumberSummary& other);
  bool operator==(const NumberSummary&) const = default;
};

NumberSummary summarize_numbers(ThreadPool& pool, const float* x, int64_t count);

/// Counts magnitudes in bins of equal width: a number that is finite and not zero counts in bin
/// min(floor(|x| * bins_per_unit), bins - 1), the product rounded to f32. At most 2^24 bins. Keeps tables for each
/// thread, which one tensor after another uses.
class MagnitudeCounter {
 public:
  /// Adds how many of x are in each bin, and says what there is among them. A thread's part with a number that the bins
  /// do not hold, as its product above exceeds their number, is left out.
  NumberSummary run(ThreadPool& pool, const float* x, int64_t count, float bins_per_unit, std::span<uint64_t> bins);
  /// Whether something of the last tensor was left out.
  bool has_rest() const { return !rest_.empty(); }
  /// Adds that, once there are bins for it; the tensor must still be there.
  void run_rest(ThreadPool& pool, float bins_per_unit, std::span<uint64_t> bins);

 private:
  struct alignas(64) Part {
    NumberSummary summary;
    std::span<const float> rest;
    std::vector<uint32_t> tables;
  };
  template <class Work>
  void for_parts(ThreadPool& pool, int64_t count, std::span<uint64_t> bins, const Work& work);

  std::vector<Part> parts_;
  std::vector<std::span<const float>> rest_;
};

}  // namespace camshaft::cpu
