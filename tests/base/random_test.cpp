#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace camshaft::random_test {
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

TEST(CounterRandom, is_philox_4x32_10) {
  // Known answers published with Random123.
  using Block = CounterRandom::Block;
  EXPECT_EQ(CounterRandom::block({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(CounterRandom::block({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(CounterRandom::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, has_the_moments_of_its_distributions) {
  const CounterRandom random(5);
  double sum = 0, normal_sum = 0, normal_squares = 0;
  constexpr int count = 100000;
  for (int i = 0; i < count; ++i) {
    const auto position = static_cast<uint64_t>(i);
    const double u = random.uniform(position, 11), n = random.normal(position);
    ASSERT_TRUE(u >= 0 && u < 1 && u * 2048 == std::floor(u * 2048)) << u;
    sum += u;
    normal_sum += n;
    normal_squares += n * n;
  }
  EXPECT_NEAR(sum / count, 0.5, 0.005);
  EXPECT_NEAR(normal_sum / count, 0, 0.015);
  EXPECT_NEAR(normal_squares / count, 1, 0.02);
  EXPECT_EQ(random.normal(77), CounterRandom(5).normal(77));
  EXPECT_NE(random.normal(77), CounterRandom(6).normal(77));
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
}  // namespace camshaft::random_test
