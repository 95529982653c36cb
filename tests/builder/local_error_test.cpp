// Slices and elements at their own scale.
#include "builder/local_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace camshaft {
namespace {

constexpr double tolerance = 1e-4, rounding = 0x1p-22, never = std::numeric_limits<double>::infinity();

// Two channels of 20: the first of thousands, the second of ones.
Tensor channels(float second) {
  Tensor made(DType::f32, {2, 20});
  std::fill(made.as_mutable<float>(), made.as_mutable<float>() + 20, 1000.0F);
  std::fill(made.as_mutable<float>() + 20, made.as_mutable<float>() + 40, second);
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
  EXPECT_EQ(wrong.where(), "index 1 of axis 0: error 0.05 of its scale 1");
}

TEST(LocalError, WhatNoiseMovesASliceByIsAllowedFourTimes) {
  LocalError error = compare(channels(1), channels(1.05F));
  std::vector<double> moved(40);
  moved[25] = 0.02;
  error.set_moved(moved);
  EXPECT_LT(error.part(), 1);
  std::swap(moved[25], moved[5]);
  error.set_moved(moved);
  EXPECT_GT(error.part(), 1) << "in another slice";
}

TEST(LocalError, ElementsThatAreExcusedAreLeftOut) {
  Tensor actual = channels(1);
  actual.as_mutable<float>()[30] = 2;
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

}  // namespace
}  // namespace camshaft
