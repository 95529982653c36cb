// A time after which work is cancelled.
#pragma once

#include <chrono>
#include <mutex>
#include <thread>

#include "base/cancellation.h"
#include "base/steady_condition.h"

namespace camshaft {

/// Cancels once the time is over, which may be at once, unless it is gone before: for work that a call can do without.
/// A thread waits for that, so it is for work of milliseconds and more. Throws std::system_error where no thread can be
/// started.
class TimeLimit {
 public:
  explicit TimeLimit(std::chrono::milliseconds limit);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  const Cancellation& cancellation() const { return cancellation_; }

 private:
  const Cancellation cancellation_;
  std::mutex mutex_;
  SteadyCondition changed_;
  bool is_done_ = false;
  std::thread thread_;
};

}  // namespace camshaft
