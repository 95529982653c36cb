// What kernels take from epilogues, and what is left.
#include "compile/region/peel_epilogue.h"

#include <gtest/gtest.h>

#include "compile/region/epilogue_writer.h"

namespace camshaft::peel_epilogue_test {
namespace {

using F = ScalarFunction;
using Kind = ScalarInstruction::Kind;
using Layout = EpilogueView::Layout;
using Writer = EpilogueWriter;

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

}  // namespace
}  // namespace camshaft::peel_epilogue_test
