#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace camshaft {
namespace {

TEST(Random, gives_the_same_numbers_everywhere) {
  Random random(42);
  // From an independent implementation of splitmix64 and xoshiro256++ in Python integers.
  EXPECT_EQ(random.next(), 15021278609987233951u);
  EXPECT_EQ(random.next(), 5881210131331364753u);
  EXPECT_EQ(random.next(), 18149643915985481100u);
  Random again(42), other(43);
  EXPECT_EQ(again.next(), 15021278609987233951u);
  EXPECT_NE(other.next(), 15021278609987233951u);
  Random normal(7);
  EXPECT_EQ(normal.normal(), 1.674036445441065);
  EXPECT_EQ(normal.normal(), -0.560049561941806);
  EXPECT_EQ(normal.normal(), 0.5378981681989655);
}

TEST(Random, uniform_has_its_range_and_mean) {
  Random random(1);
  double sum = 0;
  for (int i = 0; i < 100000; ++i) {
    const double value = random.uniform(-2, 6);
    ASSERT_GE(value, -2);
    ASSERT_LT(value, 6);
    sum += value;
  }
  EXPECT_NEAR(sum / 100000, 2, 0.05);
}

TEST(Random, normal_has_its_moments) {
  Random random(2);
  double sum = 0, squares = 0, fourth = 0;
  const int count = 200000;
  int beyond_three = 0;
  for (int i = 0; i < count; ++i) {
    const double value = random.normal();
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
    beyond_three += std::fabs(value) > 3;
  }
  EXPECT_NEAR(sum / count, 0, 0.02);
  EXPECT_NEAR(squares / count, 1, 0.02);
  EXPECT_NEAR(fourth / count, 3, 0.15);
  EXPECT_NEAR(beyond_three, count * 0.0027, 120);
}

TEST(Random, integers_cover_their_range) {
  Random random(3);
  std::set<int64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const int64_t value = random.integer(-3, 4);
    ASSERT_GE(value, -3);
    ASSERT_LE(value, 4);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_EQ(random.integer(5, 5), 5);
  bool negative = false;
  for (int i = 0; i < 64; ++i) negative |= random.integer(INT64_MIN, INT64_MAX) < 0;
  EXPECT_TRUE(negative);
}

}  // namespace
}  // namespace camshaft
