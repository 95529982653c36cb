// Activations found in scalar programs, as exporters write them, and what they compute.
#include <cmath>

#include "backends/cpu/kernel_test_util.h"
#include "backends/cpu/kernels/gemm/gemm_core.h"
#include "backends/cpu/tactics/kernel_activation.h"
#include "compile/region/activation_match.h"

namespace camshaft::cpu::activation_test {
namespace {

using Kind = ScalarInstruction::Kind;
using F = ScalarFunction;

struct Match {
  Activation activation;
  int32_t result;
};

// Instruction 0 is x.
struct Program {
  ScalarProgram p;
  Program() {
    p.inputs = 1;
    p.instructions.push_back({});
    p.instructions[0].a = 0;
  }
  int32_t number(double value) {
    ScalarInstruction i;
    i.kind = Kind::constant;
    i.number = value;
    return push(i);
  }
  int32_t op(F function, int32_t a, int32_t b = -1, int32_t c = -1, DType dtype = DType::f32) {
    ScalarInstruction i;
    i.kind = Kind::apply;
    i.function = function;
    i.dtype = dtype;
    i.a = a, i.b = b, i.c = c;
    return push(i);
  }
  int32_t push(const ScalarInstruction& i) {
    p.instructions.push_back(i);
    return static_cast<int32_t>(p.instructions.size()) - 1;
  }
  std::optional<Match> match(int32_t output) {
    p.outputs = {output};
    const auto found = match_activation(
        p, 0, {.number_of = {}, .takes = [](const ActivationFunction& f) { return kernel_activation(f).has_value(); }});
    return found ? std::optional(Match{*kernel_activation(found->function), found->result}) : std::nullopt;
  }
};

void expect_function(const std::optional<Match>& match, double (*f)(double)) {
  ASSERT_TRUE(match);
  for (double x = -20; x < 20; x += 0.37)
    EXPECT_NEAR(activation_reference(match->activation, x), f(x), 1e-6 * (1 + std::fabs(x))) << x;
}

TEST(Activation, CommonFormsAreFound) {
  {
    Program p;
    expect_function(p.match(p.op(F::mul, 0, p.op(F::sigmoid, 0))), [](double x) { return x / (1 + std::exp(-x)); });
  }
  {
    Program p;  // torch's hard-swish, and behind it a scale and a shift
    const int32_t gate = p.op(F::min, p.op(F::max, p.op(F::add, 0, p.number(3)), p.number(0)), p.number(6));
    const int32_t y = p.op(F::div, p.op(F::mul, 0, gate), p.number(6));
    expect_function(p.match(p.op(F::add, p.op(F::mul, y, p.number(2)), p.number(5))),
                    [](double x) { return 2 * x * std::fmin(std::fmax(x + 3, 0), 6) / 6 + 5; });
  }
  {
    Program p;  // hard-sigmoid
    const int32_t z = p.op(F::add, p.op(F::mul, p.number(0.2), 0), p.number(0.5));
    expect_function(p.match(p.op(F::max, p.op(F::min, z, p.number(1)), p.number(0))),
                    [](double x) { return std::fmax(std::fmin(0.2 * x + 0.5, 1), 0); });
  }
  {
    Program p;  // GELU, multiplied out
    const int32_t half = p.op(F::mul, 0, p.number(0.5));
    const int32_t e = p.op(F::erf, p.op(F::div, 0, p.number(std::sqrt(2.0))));
    expect_function(p.match(p.op(F::add, p.op(F::mul, half, e), half)),
                    [](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); });
  }
  {
    Program p;  // GELU by tanh
    const int32_t cube = p.op(F::pow, 0, p.number(3));
    const int32_t z = p.op(F::mul, p.op(F::add, 0, p.op(F::mul, cube, p.number(0.044715))), p.number(0.79788456));
    const int32_t t = p.op(F::add, p.op(F::tanh, z), p.number(1));
    expect_function(p.match(p.op(F::mul, p.op(F::mul, 0, t), p.number(0.5))),
                    [](double x) { return 0.5 * x * (1 + std::tanh(0.79788456 * (x + 0.044715 * x * x * x))); });
  }
  {
    Program p;  // leaky ReLU
    const int32_t negative = p.op(F::less, 0, p.number(0), -1, DType::boolean);
    expect_function(p.match(p.op(F::select, negative, p.op(F::mul, 0, p.number(0.1)), 0)),
                    [](double x) { return x < 0 ? 0.1 * x : x; });
  }
}

TEST(Activation, WhatUsesXElsewhereIsLeftAlone) {
  Program p;
  const int32_t silu = p.op(F::mul, 0, p.op(F::sigmoid, 0));
  EXPECT_FALSE(p.match(p.op(F::div, silu, p.op(F::exp, 0))));
  Program q;  // what uses the result is no matter
  const int32_t result = q.op(F::mul, 0, q.op(F::sigmoid, 0));
  const auto match = q.match(q.op(F::div, q.op(F::exp, result), result));
  ASSERT_TRUE(match);
  EXPECT_EQ(match->result, result);
}

TEST(Activation, KernelsEqualTheFormula) {
  RandomData random;
  const float infinity = std::numeric_limits<float>::infinity();
  for_each_target([&] {
    for (int i = 0; i < 200; ++i) {
      Activation a = random_activation(random);
      if (a.core == Activation::Core::slope) a.gated = random.coin();
      const int64_t rows = random.integer(0, 4), columns = random.integer(0, 70),
                    stride = columns + random.integer(0, 2);
      std::vector<float> c = random.vector(rows * stride), addend = random.vector(rows * stride);
      for (float& x : c) x *= 30;
      if (!c.empty()) c[0] = std::numeric_limits<float>::quiet_NaN();
      if (c.size() > 1) c[1] = random.coin() ? infinity : -infinity;
      const std::vector<float> before = c;
      core_activate(a, {c.data(), stride, rows, columns, addend.data(), stride});
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t k = 0; k < stride; ++k) {
          const auto at = static_cast<size_t>(r * stride + k);
          if (k >= columns) {
            EXPECT_EQ(std::isnan(c[at]), std::isnan(before[at]));
            if (!std::isnan(c[at])) {
              EXPECT_EQ(c[at], before[at]);
            }
            continue;
          }
          const double expected = activation_reference(a, before[at]) + addend[at];
          if (std::isinf(before[at]) && a.core == Activation::Core::tanh_cubic) continue;  // infinity - infinity
          ASSERT_TRUE(close_enough(c[at], expected, 5000, 1)) << c[at] << " for " << expected << " at " << before[at];
        }
      }
    }
  });
}

// What activation.h says of gates, all over the range in which they are neither 0 nor 1, and at its ends.
TEST(Activation, ErrorOfSilu) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const Activation silu{.core = Activation::Core::sigmoid, .gated = true};
  std::vector<float> x;
  for (float at = -105; at < 105; at += 1e-3f) x.push_back(at);
  for_each_target([&] {
    std::vector<float> c = x;
    const auto count = static_cast<int64_t>(c.size());
    core_activate(silu, {c.data(), count, 1, count, nullptr, 0});
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = x[i] / (1 + std::exp(-static_cast<double>(x[i])));
      ASSERT_NEAR(c[i], exact, 2e-7 * std::fabs(x[i])) << x[i];
    }
    std::vector<float> ends{1e4f,   1e20f,     infinity, -1e4f,
                            -1e20f, -infinity, 0,        std::numeric_limits<float>::quiet_NaN()};
    const std::vector<float> before = ends;
    core_activate(silu, {ends.data(), 8, 1, 8, nullptr, 0});
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(ends[i], before[i]);
    for (size_t i = 3; i < 5; ++i) EXPECT_EQ(ends[i], 0) << before[i];
    EXPECT_TRUE(std::isnan(ends[5])) << ends[5];  // infinity * 0
    EXPECT_EQ(ends[6], 0);
    EXPECT_TRUE(std::isnan(ends[7]));
  });
}

TEST(Activation, EndsOfGelu) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  Activation by_erf{.core = Activation::Core::erf, .gated = true}, by_tanh = by_erf;
  by_erf.a = 0.70710678f;
  by_tanh.core = Activation::Core::tanh_cubic;
  by_tanh.a = 0.79788456f;
  by_tanh.cubic = 0.79788456f * 0.044715f;
  for_each_target([&] {
    for (Activation a : {by_erf, by_tanh}) {
      a.scale = a.shift = 0.5f;
      std::vector<float> c{10, 1e4f, 1e20f, infinity, -10, -1e4f, -1e20f, -infinity, 0};
      const std::vector<float> x = c;
      core_activate(a, {c.data(), 9, 1, 9, nullptr, 0});
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(c[i], x[i]);
      for (size_t i = 4; i < 7; ++i) EXPECT_EQ(c[i], 0) << x[i];
      EXPECT_TRUE(std::isnan(c[7])) << c[7];  // infinity * 0
      EXPECT_EQ(c[8], 0);
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::activation_test
