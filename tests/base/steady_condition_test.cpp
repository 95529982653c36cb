#include "base/steady_condition.h"

#include <gtest/gtest.h>

#include <thread>

namespace camshaft::steady_condition_test {
namespace {

using Clock = std::chrono::steady_clock;

TEST(SteadyCondition, waits_until_a_time) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  SteadyCondition condition;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(20);
  while (Clock::now() < end) condition.wait_until(lock, end);
  condition.wait_until(lock, end);  // which is past
  EXPECT_TRUE(lock.owns_lock());
}

TEST(SteadyCondition, wakes_when_it_is_notified) {
  std::mutex mutex;
  SteadyCondition condition;
  bool is_told = false;
  std::thread teller([&] {
    const std::lock_guard lock(mutex);
    is_told = true;
    condition.notify_all();
  });
  std::unique_lock lock(mutex);
  const Clock::time_point end = Clock::now() + std::chrono::hours(1);
  while (!is_told) condition.wait_until(lock, end);
  condition.wait(lock, [&] { return is_told; });
  EXPECT_LT(Clock::now(), end);
  lock.unlock();
  teller.join();
}

}  // namespace
}  // namespace camshaft::steady_condition_test
