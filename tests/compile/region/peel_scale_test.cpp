// Scales behind integer sums, and the steps that they end as.
#include "compile/region/peel_scale.h"

#include <gtest/gtest.h>

#include <functional>

#include "compile/region/epilogue_writer.h"

namespace camshaft::peel_scale_test {
namespace {

using F = ScalarFunction;
using Layout = EpilogueView::Layout;
using Writer = EpilogueWriter;

TEST(PeelScale, StepsOfEightBits) {
  Writer w(DType::i32);
  const int32_t scaled = w.apply(F::mul, w.cast(0, DType::f32), w.load(Layout::columns));
  const int32_t moved = w.apply(F::add, w.apply(F::round, scaled), w.number(-3));
  const auto sums = peel_scale(w.end(w.cast(moved, DType::i8)));
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->load, 0);
  EXPECT_EQ(sums->steps, (StepsOfSum{.type = DType::i8, .zero = -3}));
}

TEST(PeelScale, WhatFollowsSeesAProductInF32) {
  Writer w(DType::i32);
  const int32_t scaled = w.apply(F::mul, w.number(0.5), w.cast(0, DType::f32));
  const auto sums = peel_scale(w.end(w.apply(F::add, scaled, w.load(Layout::columns))));
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->load, -1);
  EXPECT_EQ(sums->number, 0.5F);
  EXPECT_FALSE(sums->steps);
  EXPECT_EQ(to_string(sums->behind.program), "%0:f32 = load 0\n%1:f32 = load 1\n%2:f32 = add %0 %1\nreturn %2\n");
}

TEST(PeelScale, OtherSumsAreNotScaled) {
  EXPECT_FALSE(peel_scale(Writer(DType::i32).end(0)));
  EXPECT_FALSE(peel_scale(Writer().end(0))) << "of real numbers";
  Writer dense(DType::i32);
  EXPECT_FALSE(peel_scale(dense.end(dense.apply(F::mul, dense.cast(0, DType::f32), dense.load(Layout::dense)))));
}

// What a quantised residual block is: steps of its own, a residual, ReLU, and other steps.
TEST(PeelScale, StepsOfASumWithAnAddend) {
  Writer w(DType::i32);
  const int32_t scaled = w.apply(F::mul, w.cast(0, DType::f32), w.load(Layout::columns));
  const int32_t own = w.cast(w.apply(F::add, w.apply(F::round, scaled), w.number(100)), DType::u8);
  const int32_t own_real = w.apply(F::mul, w.apply(F::sub, w.cast(own, DType::f32), w.number(100)), w.number(0.5));
  const int32_t other = w.cast(w.load(Layout::dense, DType::i8), DType::f32);
  const int32_t other_real = w.apply(F::mul, w.apply(F::sub, other, w.number(-8)), w.number(2));
  const int32_t sum = w.apply(F::max, w.apply(F::add, own_real, other_real), w.number(0));
  const int32_t steps = w.apply(F::round, w.apply(F::div, w.apply(F::min, sum, w.number(60)), w.number(4)));
  const auto sums = peel_scale(w.end(w.cast(w.apply(F::add, steps, w.number(3)), DType::u8)));
  ASSERT_TRUE(sums && sums->steps);
  EXPECT_EQ(*sums->steps, (StepsOfSum{.type = DType::u8,
                                      .zero = 3,
                                      .lo = 0,
                                      .hi = 15,
                                      .rounds = true,
                                      .own_lo = -100,
                                      .own_hi = 155,
                                      .own_nan = -100,
                                      .own = 0.125,
                                      .shift = 4,
                                      .addend = 1,
                                      .other = 0.5}));
}

TEST(PeelScale, OtherStepsAreLeftBehind) {
  const auto peeled = [](auto&& result) {
    Writer w(DType::i32);
    const int32_t scaled = w.apply(F::mul, w.cast(0, DType::f32), w.number(2));
    return peel_scale(w.end(result(w, scaled)));
  };
  const auto as_bytes = [](Writer& w, int32_t x) { return w.cast(w.apply(F::round, x), DType::u8); };
  using Result = std::function<int32_t(Writer&, int32_t)>;
  const Result others[] = {
      // half a step is no zero point
      [](Writer& w, int32_t x) { return w.cast(w.apply(F::add, w.apply(F::round, x), w.number(0.5)), DType::u8); },
      // not rounded; a real number at the end; two addends; one a column
      [](Writer& w, int32_t x) { return w.cast(x, DType::u8); },
      [&](Writer& w, int32_t x) { return w.apply(F::mul, w.cast(as_bytes(w, x), DType::f32), w.number(0.5)); },
      [&](Writer& w, int32_t x) {
        const int32_t a = w.cast(w.load(Layout::dense, DType::u8), DType::f32);
        const int32_t b = w.cast(w.load(Layout::dense, DType::u8), DType::f32);
        return as_bytes(w, w.apply(F::add, x, w.apply(F::add, a, b)));
      },
      [&](Writer& w, int32_t x) {
        return as_bytes(w, w.apply(F::add, x, w.cast(w.load(Layout::columns, DType::u8), DType::f32)));
      },
      // steps of steps of steps; bounds below a factor that turns them round; steps beside what they are made of
      [&](Writer& w, int32_t x) {
        return as_bytes(w, w.cast(as_bytes(w, w.cast(as_bytes(w, x), DType::f32)), DType::f32));
      },
      [&](Writer& w, int32_t x) { return as_bytes(w, w.apply(F::mul, w.apply(F::max, x, w.number(0)), w.number(-1))); },
      [&](Writer& w, int32_t x) { return as_bytes(w, w.apply(F::add, x, w.cast(as_bytes(w, x), DType::f32))); },
  };
  for (size_t i = 0; i < std::size(others); ++i) {
    const auto sums = peeled(others[i]);
    ASSERT_TRUE(sums) << i;
    EXPECT_FALSE(sums->steps) << i;
    EXPECT_EQ(sums->behind.program.instructions[0].dtype, DType::f32) << i;
  }
}

// Exporters quantise behind an activation: the end is what follows it, or less.
TEST(PeelSteps, TheEndOfWhatIsNoStepOfSums) {
  Writer w(DType::i32);
  const int32_t scaled = w.apply(F::mul, w.cast(0, DType::f32), w.load(Layout::columns));
  const int32_t moved = w.apply(F::add, scaled, w.load(Layout::columns));
  const int32_t active = w.apply(F::tanh, moved);
  const int32_t steps = w.apply(F::round, w.apply(F::div, active, w.number(0.25)));
  const EpilogueView whole = w.end(w.cast(w.apply(F::add, steps, w.number(7)), DType::u8));
  const std::vector<StepsOfReal> ends = peel_steps(whole);
  ASSERT_EQ(ends.size(), 2U);
  EXPECT_EQ(ends[0].real.program.outputs[0], active);
  EXPECT_EQ(ends[0].real.result, DType::f32);
  EXPECT_EQ(ends[1].steps, (StepsOfSum{.type = DType::u8, .zero = 7}));
  EXPECT_EQ(ends[0].steps.own, 4.0F) << "a step is a quarter";
  EXPECT_EQ(ends[0].steps.zero, 7);
  EXPECT_TRUE(peel_steps(Writer().end(0)).empty()) << "not of 8 bits";
}

}  // namespace
}  // namespace camshaft::peel_scale_test
