// What a layer's result may differ by: each element by what rounding does to itself.
#include "builder/layer_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace camshaft::layer_error_test {
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

// Of 16 positions each may see those before it and itself; the last one may not, though the reference lets it.
TEST(LayerError, RoundingOfNumbersThatMeanNeverExcusesNoOthers) {
  for (const double rounding : {0x1p-22, 0x1p-8}) {
    std::vector<float> expected(256, 0);
    for (size_t row = 0; row < 16; ++row)
      for (size_t column = row + 1; column < 16; ++column) expected[row * 16 + column] = -1e9F;
    std::vector<float> moved = expected, actual = expected;
    for (float& m : moved) m *= 1 + static_cast<float>(rounding);
    const auto part = [&] {
      LayerError error(numbers(expected), numbers(actual), tolerance, rounding);
      error.add_moved(numbers(moved));
      EXPECT_TRUE(error.judge().telling);
      return error.judge().part;
    };
    EXPECT_LT(part(), 1);
    for (float& a : actual) a *= 1 - static_cast<float>(rounding);
    EXPECT_LT(part(), 1) << "their own rounding";
    actual[255] = -1e9F;
    EXPECT_GT(part(), 1);
  }
}

TEST(LayerError, WhereNothingJumpsOthersAreExcusedByAQuarterOfWhatMoves) {
  // Probabilities of a softmax, 16 of which rounding moves, and a row of 64 of them that is wrong.
  std::vector<float> expected(1024, 0.5F), moved = expected, actual = expected;
  for (size_t i = 0; i < 16; ++i) moved[i] = 0.46F;
  const auto part = [&](bool jumps) {
    LayerError error(numbers(expected), numbers(actual), tolerance, 0x1p-8);
    error.add_moved(numbers(moved));
    error.set_jumps(jumps);
    EXPECT_TRUE(error.judge().telling);
    return error.judge().part;
  };
  for (size_t i = 960; i < 964; ++i) actual[i] = 0.1F;
  EXPECT_LT(part(true), 1);
  EXPECT_LT(part(false), 1) << "those four may have been moved by too little";
  for (size_t i = 964; i < 1024; ++i) actual[i] = 0.1F;
  EXPECT_LT(part(true), 1) << "any 64 may have been tipped";
  EXPECT_GT(part(false), 1);
}

TEST(LayerError, WithoutQuotientsNoneIsExcused) {
  // An exponential that noise moves by a tenth of the scale, and that is two and a half times as large.
  std::vector<float> expected(100, 1), moved, actual;
  expected[5] = 10;
  moved = actual = expected;
  moved[5] = 9;
  const auto part = [&](float value, bool spreads) {
    actual[5] = value;
    LayerError error(numbers(expected), numbers(actual), tolerance, 0x1p-8);
    error.add_moved(numbers(moved));
    error.set_jumps(false);
    error.set_spreads(spreads);
    return error.judge().part;
  };
  EXPECT_LT(part(25, true), 1);
  EXPECT_GT(part(25, false), 1);
  EXPECT_LT(part(13, false), 1) << "three times what it moved";
}

TEST(LayerError, NothingIsSaidWhereTooMuchMoves) {
  EXPECT_FALSE(judge({1, 1, 1, 1}, {0, 0, 0, 0}, {{0, 0, 0, 0}}).telling);
  EXPECT_FALSE(judge({1}, {0}, {{0}}).telling);
  LayerError error(numbers({1, 2}), numbers({1}), tolerance, 0x1p-22);
  error.add_moved(numbers({1, 2}));
  EXPECT_TRUE(error.judge().telling);
  EXPECT_GT(error.judge().part, 1) << "another shape";
  error.add_moved(numbers({1, 2, 3}));
  EXPECT_FALSE(error.judge().telling) << "of a size that rounding decides";
}

TEST(LayerError, WhatDoesNotMoveTellsWhereMuchDoes) {
  // Gates, two of five of which rounding opens or shuts.
  std::vector<float> expected(100, 1), moved = expected, actual = expected;
  for (size_t i = 0; i < 40; ++i) moved[i] = actual[i] = 0;
  EXPECT_TRUE(judge(expected, actual, {moved}).telling);
  EXPECT_LT(judge(expected, actual, {moved}).part, 1);
  EXPECT_GT(judge(expected, std::vector<float>(100, 0), {moved}).part, 1);
  std::fill(moved.begin(), moved.begin() + 88, 0.0F);
  EXPECT_FALSE(judge(expected, actual, {moved}).telling);
}

TEST(LayerError, OneOfFewThatMovesExcusesNotAll) {
  // The activations of a squeeze and excite of EfficientNet-B0, and squares instead.
  const std::vector<float> expected = {0.513F, -0.275F, -0.262F, 0.12F}, wrong = {0.569F, 1.241F, 0.843F, 0.047F};
  const std::vector<float> moved = {0.533F, -0.27F, -0.265F, 0.13F};
  EXPECT_TRUE(judge(expected, wrong, {moved}).telling);
  EXPECT_GT(judge(expected, wrong, {moved}).part, 1);
  EXPECT_LT(judge(expected, {0.45F, -0.275F, -0.1F, 0.12F}, {moved}).part, 1) << "that one and another";
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

TEST(LayerError, AQuantizedValueMayBeAStepOffWhereAnEdgeIsNear) {
  constexpr size_t count = 640, near = 10;
  const auto steps = [](std::vector<int64_t> values) {
    return Tensor::of<int64_t>(DType::i64, {static_cast<int64_t>(values.size())}, values);
  };
  const auto part = [&](size_t from, size_t off, int64_t by) {
    std::vector<int64_t> expected(count, 7), actual = expected, moved = expected;
    for (size_t i = from; i < from + off; ++i) actual[i] += by;
    for (size_t i = 0; i < near; ++i) ++moved[i];
    LayerError error(steps(expected), steps(actual), tolerance, 0x1p-22);
    error.add_moved(steps(expected));
    EXPECT_GT(error.judge().part, 1);
    error.add_steps(steps(moved));
    return error.judge().part;
  };
  EXPECT_LT(part(0, 1, 1), 1);
  EXPECT_LT(part(0, near, 1), 1) << "all that are near an edge";
  EXPECT_GT(part(0, near + 1, 1), 1) << "one beside them";
  EXPECT_GT(part(near, 1, 1), 1) << "one that is near none";
  EXPECT_GT(part(0, 1, 2), 1) << "more than a step";
}

TEST(LayerError, WhatNoiseMovesByAStepExcusesNoOthers) {
  std::vector<int32_t> expected(640, 7), actual = expected, moved = expected, stepped = expected;
  for (size_t i = 0; i < 200; ++i) moved[i] = stepped[i] = 8;
  for (size_t i = 300; i < 340; ++i) actual[i] = 8;
  const auto numbers_of = [](const std::vector<int32_t>& values) {
    return Tensor::of<int32_t>(DType::i32, {static_cast<int64_t>(values.size())}, values);
  };
  LayerError error(numbers_of(expected), numbers_of(actual), tolerance, 0x1p-22);
  error.add_moved(numbers_of(moved));
  EXPECT_LT(error.judge().part, 1) << "as many may take another place, of what is no step";
  error.add_steps(numbers_of(stepped));
  EXPECT_GT(error.judge().part, 1);
}

TEST(LayerError, WhatIsComputedOfAQuantizedValueMayBeAStepOff) {
  // Numbers in f16: all are off by their rounding, which is no step.
  std::vector<float> expected(640, 1), actual(640, 1.0002F), moved = expected;
  actual[3] = 1.0102F;
  moved[3] += 0.01F;
  const auto part = [&](const std::vector<float>& computed) {
    LayerError error(numbers(expected), numbers(computed), 1e-3, 0x1p-11);
    error.add_moved(numbers(expected));
    EXPECT_GT(error.judge().part, 1);
    error.add_steps(numbers(moved));
    const LayerError::Verdict verdict = error.judge();
    return std::max(verdict.part, verdict.local);
  };
  EXPECT_LT(part(actual), 1);
  actual[3] = 1.0302F;
  EXPECT_GT(part(actual), 1) << "three steps";
  EXPECT_GT(part(std::vector<float>(640, 1.01F)), 1) << "all of them";
}

// A number that is rounded at 10^5 may be a step off wherever it lies, and its sine be anything.
TEST(LayerError, NothingIsSaidWhereStepsMakeAnythingOfTooMuch) {
  const auto verdict = [](size_t near, float by, size_t noisy = 0) {
    std::vector<float> expected(640, 1), stepped = expected;
    for (size_t i = 0; i < near; ++i) stepped[i] += by;
    LayerError error(numbers(expected), numbers(std::vector<float>(640, 0.5F)), tolerance, 0x1p-22);
    std::vector<float> moved = expected;
    for (size_t i = 640 - noisy; i < 640; ++i) moved[i] += by;
    error.add_moved(numbers(moved));
    error.add_steps(numbers(stepped));
    return error.judge();
  };
  EXPECT_FALSE(verdict(640, 0.6F).telling);
  EXPECT_FALSE(verdict(300, 0.6F, 300).telling) << "nor of what noise does beside these";
  EXPECT_TRUE(verdict(250, 0.6F, 250).telling);
  EXPECT_FALSE(verdict(560, 0.6F).telling);
  EXPECT_TRUE(verdict(500, 0.6F).telling) << "the others tell";
  EXPECT_GT(verdict(500, 0.6F).part, 1);
  EXPECT_TRUE(verdict(640, 0.01F).telling) << "a step of 8 bits is small";
  EXPECT_GT(verdict(640, 0.01F).part, 1);
}

TEST(LayerError, NothingIsSaidOfIntegersThatAStepMakesAnythingOf) {
  const auto telling = [](int64_t largest) {
    const auto integers = [](int64_t first, int64_t others) {
      std::vector<int64_t> values(640, others);
      values[0] = first;
      return Tensor::of<int64_t>(DType::i64, {640}, values);
    };
    LayerError error(integers(largest, 1), integers(largest, 0), tolerance, 0x1p-22);
    error.add_moved(integers(largest, 1));
    error.add_steps(integers(largest, 2));
    return error.judge().telling;
  };
  EXPECT_FALSE(telling(2)) << "remainders of a division by three";
  EXPECT_TRUE(telling(127)) << "of 8 bits";
}

}  // namespace
}  // namespace camshaft::layer_error_test
