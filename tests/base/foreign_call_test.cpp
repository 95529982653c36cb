// Exceptions of functions that others compiled; those of another C++ library are thrown in tests/tools.
#include "base/foreign_call.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <vector>

namespace camshaft::foreign_call_test {
namespace {

struct Counted {
  explicit Counted(int& alive) : alive_(alive) { ++alive_; }
  ~Counted() { --alive_; }
  int& alive_;
};

struct Derived : virtual std::exception {
  const char* what() const noexcept override { return "derived"; }
};

int works(int how, int& alive) {
  const Counted counted(alive);
  if (how == 1) throw std::runtime_error("one");
  if (how == 2) throw 7;
  if (how == 3) throw Derived();
  return 5;
}

TEST(ForeignCall, GivesWhatTheFunctionGives) {
  int alive = 0;
  EXPECT_EQ(foreign_call([&] { return works(0, alive); }), 5);
  EXPECT_EQ(alive, 0);
}

TEST(ForeignCall, ThrowsWhatComesOutOfIt) {
  int alive = 0;
  for (const auto& [how, is_standard, message] :
       {std::tuple(1, true, "one"), std::tuple(2, false, ""), std::tuple(3, true, "derived")}) {
    try {
      foreign_call([&, how = how] { return works(how, alive); });
      FAIL();
    } catch (const ForeignException& e) {
      EXPECT_EQ(e.is_standard, is_standard);
      EXPECT_EQ(e.message, message);
    }
    EXPECT_EQ(alive, 0) << "its objects are destroyed";
  }
}

TEST(ForeignCall, OneInAnother) {
  int alive = 0;
  const int result = foreign_call([&] {
    try {
      foreign_call([&] { return works(1, alive); });
    } catch (const ForeignException& e) {
      return e.message == "one" ? 11 : 0;
    }
    return 1;
  });
  EXPECT_EQ(result, 11);
}

TEST(ForeignCall, OnManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> caught = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      int alive = 0;
      for (int i = 0; i < 1000; ++i) try {
          foreign_call([&] { return works(i % 4, alive); });
        } catch (const ForeignException&) {
          ++caught;
        }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(caught, 3000);
}

}  // namespace
}  // namespace camshaft::foreign_call_test
