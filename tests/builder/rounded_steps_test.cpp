// Numbers that rounding may have moved across an edge between two steps.
#include "builder/rounded_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/float_types.h"

namespace camshaft::rounded_steps_test {
namespace {

std::vector<double> across(DType dtype, const std::vector<double>& unrounded, double reach, Random* random = nullptr) {
  const Dims dims = {static_cast<int64_t>(unrounded.size())};
  Tensor before(dtype, dims), rounded(dtype, dims);
  for (size_t i = 0; i < unrounded.size(); ++i) {
    const double step = std::nearbyint(unrounded[i]);
    if (dtype == DType::f32) {
      before.as_mutable<float>()[i] = static_cast<float>(unrounded[i]);
      rounded.as_mutable<float>()[i] = static_cast<float>(step);
    } else {
      before.as_mutable<double>()[i] = unrounded[i];
      rounded.as_mutable<double>()[i] = step;
    }
  }
  return across_edges(rounded, before, EdgeReach(unrounded.size(), reach), random).to_doubles();
}

TEST(RoundedSteps, TheStepOnTheOtherSideOfANearEdge) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_EQ(across(dtype, {2.45, 2.55, -2.45, -2.55, 2.3, 7}, 0.1), (std::vector<double>{3, 2, -3, -2, 2, 7}));
    EXPECT_EQ(across(dtype, {2.45, 2.55}, 0.01), (std::vector<double>{2, 3}));
    EXPECT_EQ(across(dtype, {2.45, -2.45, 2.55, 7}, 1.1), (std::vector<double>{4, -4, 1, 8})) << "several edges";
    EXPECT_EQ(across(dtype, {2.5, 3.5}, 0), (std::vector<double>{3, 3})) << "halves are rounded to even";
  }
}

TEST(RoundedSteps, HalfOfThemAtRandom) {
  Random random(1);
  const std::vector<double> made = across(DType::f32, std::vector<double>(1000, 2.5), 0.1, &random);
  const auto others = std::count(made.begin(), made.end(), 3);
  EXPECT_EQ(others + std::count(made.begin(), made.end(), 2), 1000);
  EXPECT_GT(others, 400);
  EXPECT_LT(others, 600);
}

TEST(RoundedSteps, NumbersThatAreNone) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> made = across(DType::f32, {inf, -inf, nan}, inf);
  EXPECT_EQ(made[0], inf);
  EXPECT_EQ(made[1], -inf);
  EXPECT_TRUE(std::isnan(made[2]));
  EXPECT_EQ(across(DType::f32, {2.45}, nan), (std::vector<double>{2}));
}

// Steps of 8-bit floats grow with the numbers, and end at the largest one.
TEST(RoundedSteps, OfFloatsOfEightBits) {
  const std::vector<float> numbers{17.01F, 16.99F, -17.01F, 447, 500, 1.4e-3F, -1e-4F, 1.5F};
  const auto count = static_cast<int64_t>(numbers.size());
  Tensor before(DType::f32, {count}), rounded(DType::f8e4m3, {count});
  for (size_t i = 0; i < numbers.size(); ++i) {
    before.as_mutable<float>()[i] = numbers[i];
    rounded.as_mutable<uint8_t>()[i] = float_to_f8e4m3(numbers[i]);
  }
  // Between 16 and 18 the edge is 17, near 0 they are 0.5, 1.5 … times 2^-9.
  EXPECT_EQ(across_edges(rounded, before, EdgeReach(numbers.size(), 0.02), nullptr).to_doubles(),
            (std::vector<double>{16, 18, -16, 448, 448, 0x1p-9 * 0, -0x1p-9, 1.5}));
  EXPECT_EQ(across_edges(rounded, before, EdgeReach(numbers.size(), 1e-5), nullptr), rounded);
}

}  // namespace
}  // namespace camshaft::rounded_steps_test
