// Slices and elements at their own scale.
#include "builder/local_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cancellation_points.h"

namespace camshaft::local_error_test {
namespace {

constexpr double tolerance = 1e-4, rounding = 0x1p-22, never = std::numeric_limits<double>::infinity();

// Eight channels of 20: the last of ones, say, the others of thousands.
Tensor channels(float last) {
  Tensor made(DType::f32, {8, 20});
  auto* values = made.as_mutable<float>();
  std::fill(values, values + 140, 1000.0F);
  std::fill(values + 140, values + 160, last);
  return made;
}

LocalError compare(const Tensor& expected, const Tensor& actual) {
  return LocalError(expected, actual, tolerance, rounding, 1000, never);
}

TEST(LocalError, ASliceIsJudgedAtItsOwnScale) {
  EXPECT_EQ(local_tolerance(1e-4), 1e-3);
  EXPECT_LT(compare(channels(1), channels(1.0009F)).part(), 1);
  const LocalError wrong = compare(channels(1), channels(1.05F));
  EXPECT_NEAR(wrong.part(), 50, 0.1);
  EXPECT_EQ(wrong.where(), "index 7 of axis 0: error 0.05 of its scale 1");
}

TEST(LocalError, WhatNoiseMovesASliceByIsAllowedFourTimes) {
  LocalError error = compare(channels(1), channels(1.05F));
  std::vector<double> moved(160);
  moved[145] = 0.02;
  error.set_moved(moved);
  EXPECT_LT(error.part(), 1);
  std::swap(moved[145], moved[5]);
  error.set_moved(moved);
  EXPECT_GT(error.part(), 1) << "in another slice";
}

TEST(LocalError, ElementsThatAreExcusedAreLeftOut) {
  Tensor actual = channels(1);
  actual.as_mutable<float>()[150] = 2;
  EXPECT_GT(compare(channels(1), actual).part(0), 1);
  EXPECT_LT(compare(channels(1), actual).part(1), 1);
}

TEST(LocalError, ThreeOfFourElementsMustBeRightAtTheirOwnMagnitude) {
  const Tensor expected = Tensor::of<float>(DType::f32, {8}, std::vector<float>{1000, 1, 1, 1, 1, 1, 1, 1});
  std::vector<float> values = {1000, 0, 0, 1, 1, 1, 1, 1};
  EXPECT_LT(compare(expected, Tensor::of<float>(DType::f32, {8}, values)).part(), 1);
  std::fill(values.begin() + 1, values.end(), 0.0F);
  EXPECT_GT(compare(expected, Tensor::of<float>(DType::f32, {8}, values)).part(), 1);
}

TEST(LocalError, ZerosMayRoundAtTheScaleOfTheWhole) {
  EXPECT_LT(compare(channels(0), channels(9e-4F)).part(), 1);
  EXPECT_GT(compare(channels(0), channels(1.1e-3F)).part(), 1);
}

TEST(LocalError, WhatIsNotFiniteOrMeansNeverIsLeftOut) {
  EXPECT_EQ(compare(channels(INFINITY), channels(INFINITY)).part(), 0);
  EXPECT_EQ(LocalError(channels(1), channels(2), tolerance, rounding, 1, 0.5).part(), 0);
}

// Comparing some 10^8 elements takes seconds.
TEST(LocalError, AsksWhetherItIsCancelled) {
  const Tensor large(DType::f32, {1 << 10, 1 << 10});
  const int64_t before = cancellation_points_passed();
  const LocalError error = compare(large, large);
  // Two conversions, the differences, and both axes.
  EXPECT_GE(cancellation_points_passed() - before, 5 * (large.size() >> 16));
}

}  // namespace
}  // namespace camshaft::local_error_test
