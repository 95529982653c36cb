// A condition variable that waits by the steady clock.
#pragma once

#include <pthread.h>

#include <chrono>
#include <mutex>

namespace camshaft {

/// std::condition_variable, whose waits until a time of the steady clock need glibc 2.30 and end at once, or late,
/// where they are by the clock of the day and somebody sets that.
class SteadyCondition {
 public:
  SteadyCondition();
  ~SteadyCondition() { pthread_cond_destroy(&condition_); }
  SteadyCondition(const SteadyCondition&) = delete;
  SteadyCondition& operator=(const SteadyCondition&) = delete;

  void notify_one() { pthread_cond_signal(&condition_); }
  void notify_all() { pthread_cond_broadcast(&condition_); }

  /// May return before it is notified, as all waits may.
  void wait(std::unique_lock<std::mutex>& lock) { pthread_cond_wait(&condition_, lock.mutex()->native_handle()); }
  void wait_until(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point end);
  template <class IsDone>
  void wait(std::unique_lock<std::mutex>& lock, const IsDone& is_done) {
    while (!is_done()) wait(lock);
  }

 private:
  pthread_cond_t condition_;
};

}  // namespace camshaft
