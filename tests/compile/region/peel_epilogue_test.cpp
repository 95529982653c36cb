// What kernels take from epilogues, and what is left.
#include "compile/region/peel_epilogue.h"

#include <gtest/gtest.h>

namespace camshaft {
namespace {

using F = ScalarFunction;
using Kind = ScalarInstruction::Kind;
using Layout = EpilogueView::Layout;

/// Writes a program; numbers are instructions, and 0 is the sum. Loads are the region's inputs 10, 11, …
struct Writer {
  EpilogueView view;

  explicit Writer(DType sum = DType::f32) { add({.kind = Kind::load, .dtype = sum, .a = 0}); }
  int32_t add(const ScalarInstruction& i) {
    view.program.instructions.push_back(i);
    return static_cast<int32_t>(view.program.instructions.size()) - 1;
  }
  int32_t load(Layout layout, DType dtype = DType::f32) {
    view.loads.push_back(static_cast<int32_t>(view.loads.size()) + 10);
    view.types.push_back(dtype);
    view.layouts.push_back(layout);
    view.constant.push_back(false);
    return add({.kind = Kind::load, .dtype = dtype, .a = static_cast<int32_t>(view.loads.size())});
  }
  int32_t number(double x) { return add({.kind = Kind::constant, .dtype = DType::f32, .number = x}); }
  int32_t cast(int32_t a, DType to) { return add({.kind = Kind::cast, .dtype = to, .a = a}); }
  int32_t apply(F f, int32_t a, int32_t b = -1) {
    return add({.kind = Kind::apply, .function = f, .dtype = DType::f32, .a = a, .b = b});
  }
  const EpilogueView& end(int32_t result) {
    view.program.outputs = {result};
    view.program.inputs = static_cast<int>(view.loads.size()) + 1;
    return view;
  }
};

EpilogueTakes all(size_t residuals = 1) {
  return {.residuals = residuals,
          .clamp = true,
          .addend = true,
          .wanted = {.number_of = {}, .takes = [](const ActivationFunction&) { return true; }}};
}

TEST(PeelEpilogue, NothingBehindIsAllTaken) {
  const PeeledEpilogue peeled = peel_epilogue(Writer().end(0), all());
  EXPECT_EQ(peeled.bias, -1);
  EXPECT_TRUE(peeled.residuals.empty());
  EXPECT_FALSE(peeled.activation || peeled.rest);
}

TEST(PeelEpilogue, BiasResidualsAndBounds) {
  Writer w;
  const int32_t bias = w.load(Layout::columns), first = w.load(Layout::dense), second = w.load(Layout::dense);
  const int32_t sum = w.apply(F::add, w.apply(F::add, w.apply(F::add, 0, bias), first), second);
  const int32_t above = w.apply(F::max, sum, w.number(0));
  const EpilogueView& view = w.end(w.apply(F::min, above, w.number(6)));
  const PeeledEpilogue peeled = peel_epilogue(view, all(2));
  EXPECT_EQ(peeled.bias, 0);
  ASSERT_EQ(peeled.residuals.size(), 2U);
  EXPECT_EQ(peeled.residuals[0].load, 1);
  EXPECT_EQ(peeled.residuals[1].load, 2);
  EXPECT_EQ(peeled.lo, 0);
  EXPECT_EQ(peeled.hi, 6);
  EXPECT_FALSE(peeled.rest);
  // A kernel that adds one residual leaves the rest to a program.
  const PeeledEpilogue less = peel_epilogue(view, all(1));
  ASSERT_TRUE(less.rest);
  EXPECT_EQ(less.residuals.size(), 1U);
  EXPECT_EQ(less.rest->loads, std::vector<int32_t>{12});
  EXPECT_EQ(to_string(less.rest->program),
            "%0:f32 = load 0\n%1:f32 = load 1\n%2:f32 = add %0 %1\n%3:f32 = constant 0\n%4:f32 = max %2 %3\n"
            "%5:f32 = constant 6\n%6:f32 = min %4 %5\nreturn %6\n");
}

TEST(PeelEpilogue, ActivationAndWhatIsAddedBehindIt) {
  Writer w;
  const int32_t x = w.apply(F::add, 0, w.load(Layout::columns)), residual = w.load(Layout::dense);
  const int32_t silu = w.apply(F::mul, x, w.apply(F::sigmoid, x));
  const EpilogueView& view = w.end(w.apply(F::add, residual, silu));
  const PeeledEpilogue peeled = peel_epilogue(view, all());
  EXPECT_EQ(peeled.bias, 0);
  ASSERT_TRUE(peeled.activation);
  EXPECT_EQ(known_activation(*peeled.activation), KnownActivation::silu);
  EXPECT_EQ(peeled.addend, 1);
  EXPECT_FALSE(peeled.rest);
  EpilogueTakes none = all();
  none.wanted.takes = [](const ActivationFunction&) { return false; };
  const PeeledEpilogue without = peel_epilogue(view, none);
  EXPECT_FALSE(without.activation);
  EXPECT_EQ(without.bias, 0);
  EXPECT_TRUE(without.rest);
}

TEST(PeelEpilogue, FactorsOnlyWhereTheyAreTaken) {
  Writer w;
  const int32_t half = w.apply(F::mul, 0, w.number(0.5));
  const EpilogueView& view = w.end(w.apply(F::sub, half, w.load(Layout::dense)));
  EpilogueTakes takes = all();
  takes.wanted.takes = [](const ActivationFunction&) { return false; };
  EXPECT_TRUE(peel_epilogue(view, takes).rest);
  takes.factors = true;
  const PeeledEpilogue peeled = peel_epilogue(view, takes);
  EXPECT_FALSE(peeled.rest);
  EXPECT_EQ(peeled.alpha, 0.5);
  EXPECT_EQ(peeled.residuals.at(0).beta, -1);
}

TEST(PeelEpilogue, WhatOthersReadStays) {
  Writer w;
  const int32_t x = w.apply(F::add, 0, w.load(Layout::columns));
  const PeeledEpilogue peeled = peel_epilogue(w.end(w.apply(F::mul, x, 0)), all());
  EXPECT_EQ(peeled.bias, -1) << "the sum without its bias is read too";
  EXPECT_TRUE(peeled.rest);
}

TEST(PeelEpilogue, NumbersThatAreLoaded) {
  Writer w;
  const EpilogueView& view = w.end(w.apply(F::mul, 0, w.load(Layout::one)));
  EXPECT_TRUE(peel_epilogue(view, all()).rest);
  EpilogueTakes takes = all();
  takes.wanted.number_of = [](int32_t input) { return input == 1 ? std::optional(0.25F) : std::nullopt; };
  const PeeledEpilogue peeled = peel_epilogue(view, takes);
  EXPECT_FALSE(peeled.rest);
  EXPECT_EQ(peeled.activation, (ActivationFunction{.a = 0.25}));
}

TEST(PeelScale, StepsOfEightBits) {
  Writer w(DType::i32);
  const int32_t scaled = w.apply(F::mul, w.cast(0, DType::f32), w.load(Layout::columns));
  const int32_t moved = w.apply(F::add, w.apply(F::round, scaled), w.number(-3));
  const auto sums = peel_scale(w.end(w.cast(moved, DType::i8)));
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->load, 0);
  EXPECT_EQ(sums->steps, DType::i8);
  EXPECT_EQ(sums->zero, -3);
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
  EXPECT_EQ(peel_epilogue(sums->behind, all()).bias, 0);
}

TEST(PeelScale, OtherSumsAreNotScaled) {
  EXPECT_FALSE(peel_scale(Writer(DType::i32).end(0)));
  EXPECT_FALSE(peel_scale(Writer().end(0))) << "of real numbers";
  Writer dense(DType::i32);
  EXPECT_FALSE(peel_scale(dense.end(dense.apply(F::mul, dense.cast(0, DType::f32), dense.load(Layout::dense)))));
  Writer half(DType::i32);
  const int32_t rounded = half.apply(F::round, half.apply(F::mul, half.cast(0, DType::f32), half.number(2)));
  EXPECT_FALSE(peel_scale(half.end(half.cast(half.apply(F::add, rounded, half.number(0.5)), DType::u8))));
}

}  // namespace
}  // namespace camshaft
