// GELU before 8 bits, found however it is spelled.
#include "backends/cuda/codegen/gelu_steps.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace camshaft::cuda::gelu_steps_test {
namespace {

using F = ScalarFunction;
using Kind = ScalarInstruction::Kind;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Writes a program; numbers are instructions, and 0 is a load.
struct Writer {
  ScalarProgram program;

  Writer() { add({.kind = Kind::load, .dtype = DType::f32, .a = 0}); }
  int32_t add(const ScalarInstruction& i) {
    program.instructions.push_back(i);
    return static_cast<int32_t>(program.instructions.size()) - 1;
  }
  int32_t number(double x) {
    return add({.kind = Kind::constant, .dtype = DType::f32, .number = static_cast<float>(x)});
  }
  int32_t apply(F f, int32_t a, int32_t b = -1) {
    return add({.kind = Kind::apply, .function = f, .dtype = DType::f32, .a = a, .b = b});
  }
  int32_t erf_of(int32_t x, double factor) { return apply(F::erf, apply(F::mul, x, number(factor))); }
  int32_t one_and(int32_t x) { return apply(F::add, x, number(1)); }
  std::optional<GeluSteps> end(int32_t value, int zero = 7) const {
    return gelu_steps(program, {value, zero}, [&](int32_t input) { return input == 1 ? 2 : infinity; });
  }
};

const double root_half = std::sqrt(0.5);

TEST(GeluSteps, AsExportersWriteIt) {
  Writer w;  // x / √2, and the product from the left
  const int32_t x = w.apply(F::mul, 0, w.number(0.01));
  const int32_t erf = w.apply(F::erf, w.apply(F::div, x, w.number(std::sqrt(2.0))));
  const int32_t gelu = w.apply(F::mul, w.apply(F::mul, x, w.one_and(erf)), w.number(0.5));
  const auto found = w.end(w.apply(F::div, gelu, w.number(0.25)));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->x, x);
  EXPECT_FLOAT_EQ(found->steps, 4);
  EXPECT_EQ(found->zero, 7);
}

TEST(GeluSteps, InAnyOrder) {
  Writer w;  // (0.5 · x) · (1 + erf), with the constant first and 1 before the sum
  const int32_t erf = w.apply(F::erf, w.apply(F::mul, w.number(root_half), 0));
  const int32_t sum = w.apply(F::add, w.number(1), erf);
  const int32_t gelu = w.apply(F::mul, sum, w.apply(F::mul, w.number(0.5), 0));
  const auto found = w.end(w.apply(F::mul, gelu, w.number(20)));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->x, 0);
  EXPECT_FLOAT_EQ(found->steps, 20);
}

TEST(GeluSteps, NothingElse) {
  const auto found = [](double factor, double one, double steps, int xs, int sums) {
    Writer w;
    const int32_t erf = w.erf_of(0, factor);
    const int32_t sum = w.apply(F::add, erf, w.number(one));
    int32_t value = w.number(0.5 * steps);
    for (int i = 0; i < xs; ++i) value = w.apply(F::mul, value, 0);
    for (int i = 0; i < sums; ++i) value = w.apply(F::mul, value, sum);
    return w.end(value).has_value();
  };
  const auto is_fine = [&](double steps) {
    Writer w;
    return w.end(w.apply(F::mul, w.apply(F::mul, 0, w.one_and(w.erf_of(0, root_half))), w.number(0.5 * steps)))
        ->is_fine;
  };
  EXPECT_TRUE(found(root_half, 1, 50, 1, 1));
  EXPECT_FALSE(found(0.7, 1, 50, 1, 1));
  EXPECT_FALSE(found(root_half, 1.01, 50, 1, 1));
  EXPECT_FALSE(found(root_half, 1, 50, 2, 1));
  EXPECT_FALSE(found(root_half, 1, 50, 0, 1));
  EXPECT_FALSE(found(root_half, 1, 50, 1, 2));
  EXPECT_FALSE(found(root_half, 1, 50, 1, 0));
  EXPECT_FALSE(found(root_half, 1, 270, 1, 1)) << "steps that are too fine: 270 · 5.8e-5 is more than 1/64";
  EXPECT_TRUE(found(root_half, 1, 269, 1, 1));
  EXPECT_TRUE(is_fine(125)) << "125 · 1.26e-4 is more than 1/64";
  EXPECT_FALSE(is_fine(123));
}

TEST(GeluSteps, OfAnotherNumber) {
  Writer w;
  const int32_t other = w.add({.kind = Kind::load, .dtype = DType::f32, .a = 1});
  EXPECT_FALSE(w.end(w.apply(F::mul, other, w.one_and(w.erf_of(0, root_half)))));
}

// Factors that even channels out: input 1 has numbers up to 2, input 2 any.
TEST(GeluSteps, WithAFactor) {
  const auto found = [](int32_t input, double steps, int times) {
    Writer w;
    const int32_t factor = w.add({.kind = Kind::load, .dtype = DType::f32, .a = input});
    int32_t value = w.apply(F::mul, w.apply(F::mul, 0, w.one_and(w.erf_of(0, root_half))), w.number(0.5 * steps));
    for (int i = 0; i < times; ++i) value = w.apply(F::mul, value, factor);
    const auto gelu = w.end(value);
    EXPECT_TRUE(!gelu || (gelu->factor == factor) == (times == 1));
    return gelu;
  };
  ASSERT_TRUE(found(1, 50, 1));
  EXPECT_FALSE(found(1, 50, 1)->is_fine);
  EXPECT_FLOAT_EQ(found(1, 50, 1)->steps, 50);
  EXPECT_TRUE(found(1, 63, 1)->is_fine);
  EXPECT_FALSE(found(1, 135, 1)) << "too fine";
  EXPECT_FALSE(found(1, 10, 2)) << "twice";
  EXPECT_FALSE(found(2, 50, 1)) << "by what only running tells";
}

}  // namespace
}  // namespace camshaft::cuda::gelu_steps_test
