// Quantiles of what something took lately.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "server/core/request.h"

namespace camshaft::server {

/// Durations of the last minute as counts by their size, from which any quantile can be read: it is at most 1.6 % above
/// the duration that has the rank. Not safe from several threads.
class LatencySummary {
 public:
  void add(uint64_t ns, Clock::time_point now);
  /// In microseconds; NaN where there was nothing in the last minute. `share`: from 0 to 1.
  double quantile(double share, Clock::time_point now) const;
  uint64_t count() const { return count_; }           ///< of all, not of the last minute alone
  uint64_t sum_us() const { return sum_ns_ / 1000; }  ///< likewise

 private:
  /// A part of the minute. It begins anew when its turn comes again.
  struct Slice {
    int64_t number = -1;
    std::vector<uint32_t> counts;
  };
  static constexpr int64_t slices = 6;
  static constexpr std::chrono::seconds slice_time{10};
  static int64_t slice_of(Clock::time_point now) { return now.time_since_epoch() / slice_time; }

  std::array<Slice, slices> slices_;
  uint64_t count_ = 0, sum_ns_ = 0;
};

}  // namespace camshaft::server
