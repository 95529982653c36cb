#include "quantize/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace camshaft {

void Histogram::add_extremes(const float* x, int64_t count, ThreadPool& pool) {
  summary_.add(cpu::summarize_numbers(pool, x, count));
}

void Histogram::add(const float* x, int64_t count, ThreadPool& pool, cpu::MagnitudeCounter& counter) {
  const cpu::NumberSummary summary = counter.run(pool, x, count, bins_per_unit_, bins_);
  summary_.add(summary);
  if (!counter.has_rest()) return;
  make_room_for(summary.largest());
  counter.run_rest(pool, bins_per_unit_, bins_);
}

void Histogram::make_room_for(float largest) {
  if (bins_.empty()) {
    // Neither the width nor its reciprocal may leave the normal numbers.
    width_ = std::max(largest / static_cast<float>(first_bins), 4 * std::numeric_limits<float>::min());
    bins_per_unit_ = 1 / width_;
    bins_.resize(static_cast<size_t>(first_bins));
    return;
  }
  // Halves and doubles are exact: a number's bin is then half of what it was.
  while (largest * bins_per_unit_ > static_cast<float>(most_bins)) {
    for (size_t b = 0; b < bins_.size(); ++b) {
      const uint64_t count = bins_[b];
      bins_[b] = 0;
      bins_[b / 2] += count;
    }
    bins_.resize(std::max<size_t>((bins_.size() + 1) / 2, static_cast<size_t>(first_bins)));
    width_ *= 2;
    bins_per_unit_ /= 2;
  }
  const auto needed = static_cast<size_t>(std::ceil(largest * bins_per_unit_));
  if (needed > bins_.size()) bins_.resize(needed);
}

std::vector<uint64_t> Histogram::bins() const {
  std::vector<uint64_t> bins = bins_;
  if (!bins.empty()) bins[0] += static_cast<uint64_t>(summary_.zeros);
  return bins;
}

}  // namespace camshaft
