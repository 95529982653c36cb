#include "base/time_limit.h"

#include "base/blocked_signals.h"

namespace camshaft {

TimeLimit::TimeLimit(std::chrono::milliseconds limit) {
  if (limit.count() <= 0) {
    cancellation_.cancel();
    return;
  }
  const BlockedSignals signals;
  thread_ = std::thread([this, end = std::chrono::steady_clock::now() + limit] {
    std::unique_lock lock(mutex_);
    while (!is_done_ && std::chrono::steady_clock::now() < end) changed_.wait_until(lock, end);
    if (!is_done_) cancellation_.cancel();
  });
}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    is_done_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace camshaft
