// What a layer's result may differ by: each element by what rounding does to itself.
#include "builder/layer_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace camshaft {
namespace {

constexpr double tolerance = 1e-4;

Tensor numbers(const std::vector<float>& values) {
  Tensor made(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), made.as_mutable<float>());
  return made;
}

LayerError::Verdict judge(const std::vector<float>& expected, const std::vector<float>& actual,
                          const std::vector<std::vector<float>>& moved) {
  LayerError error(numbers(expected), numbers(actual), tolerance, 0x1p-22);
  for (const std::vector<float>& m : moved) error.add_moved(numbers(m));
  return error.judge();
}

TEST(LayerError, AnElementMayDifferByFourTimesWhatItMoved) {
  const LayerError::Verdict verdict = judge({1, 0.5F}, {1, 0.503F}, {{1, 0.501F}, {1, 0.4985F}});
  EXPECT_TRUE(verdict.telling);
  EXPECT_NEAR(verdict.part, 0.5, 1e-3);
  EXPECT_NEAR(verdict.error, 0.003, 1e-6);
  EXPECT_GT(judge({1, 0.5F}, {1, 0.507F}, {{1, 0.501F}, {1, 0.4985F}}).part, 1);
}

TEST(LayerError, AnElementMayDifferByFewerTimesWhatItMoved) {
  const auto part = [](double excused) {
    LayerError error(numbers({1, 0.5F}), numbers({1, 0.503F}), 1e-4, 0x1p-22, excused);
    error.add_moved(numbers({1, 0.501F}));
    return error.judge().part;
  };
  EXPECT_NEAR(part(4), 0.75, 1e-3);
  EXPECT_NEAR(part(2), 1.5, 1e-3);
  EXPECT_NEAR(part(0), 30, 1e-1) << "the tolerance alone";
}

TEST(LayerError, AnElementThatMovesExcusesNoOther) {
  const LayerError::Verdict verdict = judge({1, 0.5F, 0.3F}, {1, 0.5F, 0.301F}, {{1, 0.51F, 0.3F}});
  EXPECT_TRUE(verdict.telling);
  EXPECT_NEAR(verdict.part, 10, 0.1) << "by the tolerance";
  EXPECT_NEAR(verdict.error, 0.001, 1e-6);
}

TEST(LayerError, WhatRoundingTipsMayBeOtherElements) {
  // A step function, of two elements near its step.
  std::vector<float> expected(64, 1), moved = expected, actual = expected;
  moved[3] = 0;
  actual[5] = 0;
  EXPECT_LT(judge(expected, actual, {moved}).part, 1);
  EXPECT_GT(judge(expected, actual, {expected}).part, 1);
  // Four of them for each that moved.
  for (const size_t i : {6, 7, 8}) actual[i] = 0;
  EXPECT_LT(judge(expected, actual, {moved}).part, 1);
  actual[9] = 0;
  EXPECT_GT(judge(expected, actual, {moved}).part, 1);
}

TEST(LayerError, WhatRoundingTipsExcusesNoMoreThanAnEighthBeside) {
  std::vector<float> expected(100, 1), moved = expected, actual = expected;
  for (size_t i = 0; i < 24; ++i) moved[i] = 0;
  for (size_t i = 0; i < 36; ++i) actual[99 - i] = 0;
  EXPECT_LT(judge(expected, actual, {moved}).part, 1);
  for (size_t i = 36; i < 96; ++i) actual[99 - i] = 0;
  EXPECT_TRUE(judge(expected, actual, {moved}).telling);
  EXPECT_GT(judge(expected, actual, {moved}).part, 1);
}

TEST(LayerError, NothingIsSaidWhereTooMuchMoves) {
  EXPECT_FALSE(judge({1, 1, 1, 1}, {0, 0, 0, 0}, {{1, 1, 1, 0}}).telling);
  LayerError error(numbers({1, 2}), numbers({1}), tolerance, 0x1p-22);
  error.add_moved(numbers({1, 2}));
  EXPECT_TRUE(error.judge().telling);
  EXPECT_GT(error.judge().part, 1) << "another shape";
  error.add_moved(numbers({1, 2, 3}));
  EXPECT_FALSE(error.judge().telling) << "of a size that rounding decides";
}

TEST(LayerError, NumbersThatAreNone) {
  const float inf = INFINITY, nan = std::nanf("");
  EXPECT_LT(judge({1, inf, nan}, {1, inf, nan}, {{1, inf, nan}}).part, 1);
  EXPECT_GT(judge({1, 2, 3}, {1, inf, 3}, {{1, 2, 3}}).part, 1);
  EXPECT_GT(judge({1, 2, 3}, {1, nan, 3}, {{1, 2, 3}}).part, 1);
  EXPECT_GT(judge({1, nan, 3}, {1, 2, 3}, {{1, nan, 3}}).part, 1);
  EXPECT_GT(judge({0, 0}, {0, 1e-3F}, {{0, 0}}).part, 1) << "nothing to be relative to";
}

TEST(LayerError, NumbersThatMeanNeverMayRound) {
  EXPECT_LT(judge({-1e9F, 2, 3}, {-1e9F + 64, 2, 3.0002F}, {{-1e9F, 2, 3}}).part, 1);
  EXPECT_GT(judge({-1e9F, 2, 3}, {-1e9F + 64, 2, 3.001F}, {{-1e9F, 2, 3}}).part, 1);
}

TEST(LayerError, OfIndicesFourTimesAsManyMayDiffer) {
  const auto indices = [](std::vector<int64_t> values) {
    Tensor made(DType::i64, {static_cast<int64_t>(values.size())});
    std::copy(values.begin(), values.end(), made.as_mutable<int64_t>());
    return made;
  };
  LayerError error(indices({0, 1, 2, 3, 4, 5, 6, 7}), indices({1, 0, 3, 2, 4, 5, 6, 7}), tolerance, 0x1p-22);
  EXPECT_GT(error.judge().part, 1);
  error.add_moved(indices({0, 1, 2, 3, 4, 5, 7, 6}));
  EXPECT_TRUE(error.judge().telling);
  EXPECT_NEAR(error.judge().part, 2.0 / 3, 1e-6) << "4 of 6 that may differ: 2, and 4 beside them";
}

TEST(LayerError, AQuantizedValueMayBeAStepOff) {
  constexpr size_t count = 640;
  const auto steps = [](std::vector<int64_t> values) {
    return Tensor::of<int64_t>(DType::i64, {static_cast<int64_t>(values.size())}, values);
  };
  const auto part = [&](size_t off, int64_t by) {
    std::vector<int64_t> expected(count, 7), actual = expected, moved = expected;
    for (size_t i = 0; i < off; ++i) actual[i] += by;
    for (int64_t& v : moved) ++v;
    LayerError error(steps(expected), steps(actual), tolerance, 0x1p-22);
    error.add_moved(steps(expected));
    EXPECT_TRUE(off == 0 || error.judge().part > 1);
    error.add_steps(steps(moved));
    return error.judge().part;
  };
  EXPECT_LT(part(1, 1), 1);
  EXPECT_LT(part(count / 64, -1), 1);
  EXPECT_GT(part(count / 16, 1), 1) << "of too many elements: a zero point that is wrong";
  EXPECT_GT(part(1, 2), 1) << "more than a step";
}

TEST(LayerError, WhatIsComputedOfAQuantizedValueMayBeAStepOff) {
  std::vector<float> expected(640, 1), actual = expected, moved = expected;
  actual[3] = 1.01F;
  for (float& v : moved) v += 0.01F;
  LayerError error(numbers(expected), numbers(actual), tolerance, 0x1p-22);
  error.add_moved(numbers(expected));
  EXPECT_GT(error.judge().part, 1);
  error.add_steps(numbers(moved));
  EXPECT_LT(error.judge().part, 1);
  for (float& v : actual) v = 1.01F;
  LayerError all(numbers(expected), numbers(actual), tolerance, 0x1p-22);
  all.add_steps(numbers(moved));
  EXPECT_GT(all.judge().part, 1);
}

}  // namespace
}  // namespace camshaft
