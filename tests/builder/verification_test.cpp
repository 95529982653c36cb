// At what scale outputs are compared.
#include "builder/verification.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace camshaft::verification_test {
namespace {

OutputError compare(const std::vector<float>& expected, const std::vector<float>& actual) {
  const auto tensor = [](const std::vector<float>& values) {
    Tensor made(DType::f32, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), made.as_mutable<float>());
    return made;
  };
  return compare_outputs({"y"}, {tensor(expected)}, {tensor(actual)}, 1e-4)[0];
}

TEST(CompareOutputs, TheScaleIsTheLargestMagnitude) {
  const OutputError error = compare({1, -8, 3}, {1.0001F, -8, 3});
  EXPECT_EQ(error.scale, 8);
  EXPECT_NEAR(error.relative(), 1e-4 / 8, 1e-7);
  EXPECT_TRUE(error.passed);
}

TEST(CompareOutputs, SentinelsDoNotHideErrorsOfTheRest) {
  for (const float never : {-1e9F, -65504.0F * 4, std::numeric_limits<float>::lowest(), 1e30F}) {
    const OutputError error = compare({never, 2, never, 3}, {never, 2.1F, never, 3});
    EXPECT_EQ(error.scale, 3) << never;
    EXPECT_NEAR(error.max_error, 0.1, 1e-6);
    EXPECT_FALSE(error.passed);
    EXPECT_TRUE(compare({never, 2, never, 3}, {never, 2.0001F, never, 3}).passed);
  }
  // Scores that were added to them, and round otherwise.
  EXPECT_FALSE(compare({-1e9F, 2, 3}, {-1e9F + 64, 2.1F, 3}).passed);
  EXPECT_TRUE(compare({-1e9F, 2, 3}, {-1e9F + 64, 2.0001F, 3}).passed);
}

TEST(CompareOutputs, SentinelsMustBeThere) {
  EXPECT_FALSE(compare({-1e9F, 2, 3}, {-9e8F, 2, 3}).passed);
  EXPECT_FALSE(compare({-1e9F, 2, 3}, {5, 2, 3}).passed);
  EXPECT_FALSE(compare({2, 2, 3}, {-1e9F, 2, 3}).passed);
  EXPECT_FALSE(compare({-1e9F, 2, 3}, {-std::numeric_limits<float>::infinity(), 2, 3}).passed);
  EXPECT_FALSE(compare({-1e9F, 2, 3}, {-1e9F, std::nanf(""), 3}).passed);
}

TEST(CompareOutputs, OrdinaryNumbersThatAgreeAreTheScale) {
  // Probabilities of which all but the noise agrees; large numbers of which the smallest differ.
  EXPECT_EQ(compare({1, 1, 3e-8F}, {1, 1, 4e-8F}).scale, 1);
  EXPECT_EQ(compare({5000, 20, 0.5F}, {5000, 20, 0.501F}).scale, 5000);
  EXPECT_EQ(compare({1e9F, 3, 2}, {1e9F, 3, 2}).scale, 1e9F) << "all agree";
}

// Rows of a classifier, as maps: those of one that is not decided are small beside the others.
TEST(CompareOutputs, MapsOfASequenceHaveOneScale) {
  const auto rows = [](float undecided) {
    const auto row = [](float score) {
      return Tensor::map(Tensor::from_ints({0, 1}), Tensor::of<float>(DType::f32, {2}, {-score, score}));
    };
    return Tensor::sequence({row(1), row(undecided)});
  };
  const auto passes = [&](float expected, float actual) {
    return compare_outputs({"y"}, {rows(expected)}, {rows(actual)}, 1e-4)[0].passed;
  };
  EXPECT_TRUE(passes(1e-4F, 1.01e-4F));
  EXPECT_FALSE(passes(1e-4F, 3e-4F));
  EXPECT_FALSE(passes(NAN, 0));
}

}  // namespace
}  // namespace camshaft::verification_test
