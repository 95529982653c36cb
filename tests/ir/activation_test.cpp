// Activations in all the ways to spell them, and what is none.
#include "ir/activation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace camshaft::activation_test {
namespace {

using F = ScalarFunction;
using Core = ActivationFunction::Core;

/// Lets tests write expressions.
struct X {
  FunctionOfX f = FunctionOfX::identity();
  friend X apply(F function, const X& a, const X& b = {{}}, const X& c = {{}}) {
    return {FunctionOfX::apply(function, a.f, b.f, c.f)};
  }
  friend X operator+(const X& a, const X& b) { return apply(F::add, a, b); }
  friend X operator-(const X& a, const X& b) { return apply(F::sub, a, b); }
  friend X operator*(const X& a, const X& b) { return apply(F::mul, a, b); }
  friend X operator/(const X& a, const X& b) { return apply(F::div, a, b); }
  friend X operator-(const X& a) { return apply(F::neg, a); }
};
X number(double value) {
  return {FunctionOfX::number(value)};
}
const X x;

std::optional<KnownActivation> known(const X& value) {
  const auto function = value.f.activation();
  return function ? known_activation(*function) : std::nullopt;
}

TEST(Activation, SigmoidsAreOneHoweverSpelled) {
  const X e = apply(F::exp, -x);
  for (const X& s : {apply(F::sigmoid, x), number(1) / (e + number(1)), apply(F::reciprocal, number(1) + e),
                     apply(F::exp, x) / (apply(F::exp, x) + number(1)), number(1) - apply(F::sigmoid, -x),
                     number(0.5) + number(0.5) * apply(F::tanh, x / number(2))}) {
    EXPECT_EQ(known(s), KnownActivation::sigmoid);
    EXPECT_EQ(known(s * x), KnownActivation::silu);
  }
  EXPECT_EQ(known(x / (e + number(1))), KnownActivation::silu);
  EXPECT_EQ(known(apply(F::sigmoid, x * number(1.702)) * x), std::nullopt);
  EXPECT_EQ(known(number(1) / (e + number(2))), std::nullopt);
  EXPECT_EQ(known(number(1) / (e - number(1))), std::nullopt);
  EXPECT_EQ(known((e + number(1)) / x), std::nullopt);
}

TEST(Activation, Gelu) {
  const X erf = apply(F::erf, x / number(1.41421356f));
  EXPECT_EQ(known(x * number(0.5) * (number(1) + erf)), KnownActivation::gelu);
  EXPECT_EQ(known(number(0.5) * (x + x * erf)), KnownActivation::gelu);
  EXPECT_EQ(known(x * (number(0.5) - number(0.5) * apply(F::erf, x * number(-0.70710678)))), KnownActivation::gelu);
  EXPECT_EQ(known(x * number(0.5) * (number(1) + apply(F::erf, x))), std::nullopt);
  const X cube = apply(F::pow, x, number(3));
  for (const X& inner : {x + number(0.044715) * cube, x * (number(1) + number(0.044715f) * x * x)})
    EXPECT_EQ(known(x * (number(0.5) + number(0.5) * apply(F::tanh, inner * number(0.79788456f)))),
              KnownActivation::gelu_by_tanh);
  EXPECT_EQ(known(x * (number(0.5) + number(0.5) * apply(F::tanh, (x + number(0.05) * cube) * number(0.79788456)))),
            std::nullopt);
}

TEST(Activation, ClampsAndSlopes) {
  EXPECT_EQ(known(apply(F::max, number(0), x)), KnownActivation::relu);
  const auto six = apply(F::min, apply(F::max, x, number(0)), number(6)).f.activation();
  ASSERT_TRUE(six);
  EXPECT_EQ(known_activation(*six), std::nullopt);
  EXPECT_EQ(*six, (ActivationFunction{.core = Core::clamp, .lo = 0, .hi = 6}));
  // Hard-swish: x · clamp(x / 6 + 1/2).
  const X hard = x * apply(F::min, apply(F::max, x * number(0.25) + number(0.5), number(0)), number(1));
  EXPECT_EQ(hard.f.activation(),
            (ActivationFunction{.core = Core::clamp, .gated = true, .a = 0.25, .b = 0.5, .lo = 0, .hi = 1}));
  const auto slope = apply(F::select, apply(F::less, x, number(0)), x * number(0.125), x).f.activation();
  EXPECT_EQ(slope, (ActivationFunction{.core = Core::slope, .gated = true, .lo = 0.125, .hi = 1}));
  EXPECT_FALSE(apply(F::max, x, number(std::nan(""))).f.is_known());
}

TEST(Activation, SoftplusAndItsTanh) {
  const X e = apply(F::exp, x);
  const X stable = apply(F::max, x, number(0)) + apply(F::log1p, apply(F::exp, -apply(F::abs, x)));
  for (const X& softplus : {apply(F::log, number(1) + e), apply(F::log1p, e), stable}) {
    const auto function = softplus.f.activation();
    ASSERT_TRUE(function);
    EXPECT_EQ(*function, ActivationFunction{.core = Core::softplus});
    EXPECT_EQ(known(apply(F::tanh, softplus)), KnownActivation::tanh_of_softplus);
  }
  EXPECT_FALSE(apply(F::log, e).f.is_known());
  EXPECT_FALSE(apply(F::log1p, number(1) + e).f.is_known());
  EXPECT_FALSE(apply(F::tanh, stable + number(1)).f.is_known());
}

TEST(Activation, NumbersAndOthersAreNone) {
  EXPECT_FALSE(number(3).f.activation());
  EXPECT_FALSE(FunctionOfX().activation());
  EXPECT_FALSE((x * x).f.activation());
  EXPECT_FALSE(apply(F::exp, x).f.activation());
  EXPECT_FALSE((x * number(1e31)).f.activation()) << "beyond what kernels multiply by in f32";
  EXPECT_FALSE((x * apply(F::sin, x)).f.is_known());
  EXPECT_FALSE((x / number(0)).f.is_known());
  EXPECT_EQ((x * number(2) + number(1)).f.activation(), (ActivationFunction{.a = 2, .b = 1}));
}

TEST(Activation, TheTableIsWhatItSays) {
  for (const KnownActivation each :
       {KnownActivation::relu, KnownActivation::sigmoid, KnownActivation::silu, KnownActivation::gelu,
        KnownActivation::gelu_by_tanh, KnownActivation::tanh_of_softplus})
    EXPECT_EQ(known_activation(activation_function(each)), each);
}

}  // namespace
}  // namespace camshaft::activation_test
