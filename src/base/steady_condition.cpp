#include "base/steady_condition.h"

#include <time.h>

namespace camshaft {

SteadyCondition::SteadyCondition() {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);  // of which the steady clock's times are
  pthread_cond_init(&condition_, &attributes);
  pthread_condattr_destroy(&attributes);
}

void SteadyCondition::wait_until(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point end) {
  using std::chrono::nanoseconds, std::chrono::seconds;
  const auto since = end.time_since_epoch();
  const auto whole = std::chrono::duration_cast<seconds>(since);
  timespec until = {};
  until.tv_sec = static_cast<time_t>(whole.count());
  until.tv_nsec = static_cast<long>(nanoseconds(since - whole).count());
  pthread_cond_timedwait(&condition_, lock.mutex()->native_handle(), &until);
}

}  // namespace camshaft
