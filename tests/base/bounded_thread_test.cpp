#include "base/bounded_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/error.h"

namespace camshaft::bounded_thread_test {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(BoundedThread, calls_follow_each_other_on_one_other_thread) {
  BoundedThread thread;
  std::thread::id first, second;
  EXPECT_TRUE(thread.run([&](const Cancellation&) { first = std::this_thread::get_id(); }, hours(1), {}));
  EXPECT_TRUE(thread.run([&](const Cancellation&) { second = std::this_thread::get_id(); }, hours(1), {}));
  EXPECT_EQ(first, second);
  EXPECT_NE(first, std::this_thread::get_id());
}

TEST(BoundedThread, what_a_call_throws_is_thrown_here) {
  BoundedThread thread;
  const auto fails = [](const Cancellation&) { throw std::runtime_error("no luck"); };
  EXPECT_THROW(thread.run(fails, hours(1), {}), std::runtime_error);
  EXPECT_TRUE(thread.run([](const Cancellation&) {}, hours(1), {}));
}

TEST(BoundedThread, one_that_does_not_return_is_left_behind) {
  const auto may_end = std::make_shared<std::atomic<bool>>(false),
             has_ended = std::make_shared<std::atomic<bool>>(false);
  {
    BoundedThread thread;
    const auto endless = [=](const Cancellation&) {
      while (!*may_end) std::this_thread::yield();
      *has_ended = true;
    };
    EXPECT_FALSE(thread.run(endless, milliseconds(1), {}));
    EXPECT_TRUE(thread.run([](const Cancellation&) {}, hours(1), {}));
  }
  EXPECT_FALSE(*has_ended);
  *may_end = true;
  while (!*has_ended) std::this_thread::yield();
}

TEST(BoundedThread, one_that_asks_comes_to_its_end_at_the_limit) {
  BoundedThread thread;
  bool has_ended = false;
  const auto asks = [&](const Cancellation& cancellation) {
    while (!cancellation.cancelled()) std::this_thread::yield();
    has_ended = true;
  };
  EXPECT_FALSE(thread.run(asks, milliseconds(1), {}));
  EXPECT_TRUE(has_ended);
}

// What a library's thread keeps for itself goes when it ends, which is before its code may be gone.
TEST(BoundedThread, its_thread_has_ended_when_it_is_gone) {
  static std::atomic<bool> is_gone = false;
  struct Kept {
    ~Kept() {
      std::this_thread::sleep_for(milliseconds(20));
      is_gone = true;
    }
  };
  {
    BoundedThread thread;
    const auto keeps = [](const Cancellation&) {
      thread_local const Kept kept;
      static_cast<void>(kept);
    };
    EXPECT_TRUE(thread.run(keeps, hours(1), {}));
  }
  EXPECT_TRUE(is_gone);
}

TEST(BoundedThread, cancelling_ends_the_wait) {
  BoundedThread thread;
  const Cancellation cancellation;
  const auto may_end = std::make_shared<std::atomic<bool>>(false);
  cancellation.cancel();
  const auto endless = [=](const Cancellation&) {
    while (!*may_end) std::this_thread::yield();
  };
  try {
    thread.run(endless, hours(1), cancellation);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::cancelled);
  }
  *may_end = true;
}

}  // namespace
}  // namespace camshaft::bounded_thread_test
