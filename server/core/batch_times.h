// How long runs take by the size of their batch, as measured.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

namespace camshaft::server {

/// Safe from several threads.
class BatchTimes {
 public:
  /// Of one run. The first of a size counts whole, later ones an eighth: times drift with the machine's load.
  void add(int64_t batch, std::chrono::nanoseconds time);
  /// Between sizes that were measured by the line through them; beyond the largest in proportion to it. Zero where
  /// nothing was measured.
  std::chrono::nanoseconds expected(int64_t batch) const;
  /// What most runs are below: their mean deviation above the mean. For promises, where other processes of the machine
  /// make times differ.
  std::chrono::nanoseconds cautious(int64_t batch) const;
  bool empty() const;

 private:
  struct Times {
    double mean = 0, deviation = 0;  ///< in nanoseconds
  };
  std::chrono::nanoseconds between(int64_t batch, double deviations) const;

  mutable std::mutex mutex_;
  std::map<int64_t, Times> times_;
};

}  // namespace camshaft::server
