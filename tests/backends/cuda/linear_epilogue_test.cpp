// Epilogues in the form that NVIDIA's libraries have, found however they are spelled.
#include "backends/cuda/tactics/linear_epilogue.h"

#include <gtest/gtest.h>

#include <limits>

namespace camshaft::cuda::linear_epilogue_test {
namespace {

using F = ScalarFunction;
using Kind = ScalarInstruction::Kind;
using Layout = EpilogueView::Layout;
using Activation = KnownActivation;

/// Writes a program; numbers are instructions, and 0 is the sum.
struct Writer {
  EpilogueView view;

  Writer() { add({.kind = Kind::load, .dtype = DType::f32, .a = 0}); }
  int32_t add(const ScalarInstruction& i) {
    view.program.instructions.push_back(i);
    return static_cast<int32_t>(view.program.instructions.size()) - 1;
  }
  int32_t load(Layout layout, DType dtype = DType::f32) {
    view.loads.push_back(static_cast<int32_t>(view.loads.size()) + 2);
    view.types.push_back(dtype);
    view.layouts.push_back(layout);
    view.constant.push_back(false);
    view.most.push_back(std::numeric_limits<double>::infinity());
    return add({.kind = Kind::load, .dtype = dtype, .a = static_cast<int32_t>(view.loads.size())});
  }
  int32_t number(double x) { return add({.kind = Kind::constant, .dtype = DType::f32, .number = x}); }
  int32_t cast(int32_t a, DType to) { return add({.kind = Kind::cast, .dtype = to, .a = a}); }
  int32_t apply(F f, int32_t a, int32_t b = -1) {
    return add({.kind = Kind::apply, .function = f, .dtype = DType::f32, .a = a, .b = b});
  }
  std::optional<LinearEpilogue> end(int32_t result) {
    view.program.outputs = {result};
    view.program.inputs = static_cast<int>(view.loads.size()) + 1;
    return linear_epilogue(view);
  }
};

TEST(LinearEpilogue, Nothing) {
  const auto found = Writer().end(0);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->alpha, 1);
  EXPECT_EQ(found->bias, -1);
  EXPECT_EQ(found->residual, -1);
  EXPECT_FALSE(found->activation);
}

TEST(LinearEpilogue, FactorsOperandsAndRelu) {
  Writer w;
  const int32_t bias = w.load(Layout::columns), residual = w.cast(w.load(Layout::dense, DType::f16), DType::f32);
  const int32_t scaled = w.apply(F::div, w.apply(F::mul, w.number(3), 0), w.number(2));
  const int32_t sum = w.apply(F::sub, bias, w.apply(F::neg, scaled));
  const int32_t all = w.apply(F::sub, sum, w.apply(F::mul, residual, w.number(0.5)));
  const auto found = w.end(w.cast(w.apply(F::max, w.number(0), all), DType::f16));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->alpha, 1.5);
  EXPECT_EQ(found->beta, -0.5);
  EXPECT_EQ(found->bias, 0);
  EXPECT_EQ(found->residual, 1);
  EXPECT_EQ(found->activation, Activation::relu);
}

TEST(LinearEpilogue, Activations) {
  const auto found = [](const std::function<int32_t(Writer&, int32_t)>& activation) {
    Writer w;
    const int32_t x = w.apply(F::add, 0, w.load(Layout::columns));
    const auto view = w.end(activation(w, x));
    EXPECT_TRUE(!view || view->bias == 0);
    return view ? std::optional(view->activation) : std::nullopt;
  };
  EXPECT_EQ(found([](Writer& w, int32_t x) { return w.apply(F::sigmoid, x); }), Activation::sigmoid);
  EXPECT_EQ(found([](Writer& w, int32_t x) { return w.apply(F::mul, x, w.apply(F::sigmoid, x)); }), Activation::silu);
  EXPECT_EQ(found([](Writer& w, int32_t x) {
              return w.apply(F::div, x, w.apply(F::add, w.number(1), w.apply(F::exp, w.apply(F::neg, x))));
            }),
            Activation::silu);
  EXPECT_EQ(found([](Writer& w, int32_t x) {
              const int32_t erf = w.apply(F::erf, w.apply(F::div, x, w.number(1.41421356)));
              return w.apply(F::mul, w.apply(F::mul, x, w.apply(F::add, erf, w.number(1))), w.number(0.5));
            }),
            Activation::gelu);
  EXPECT_EQ(found([](Writer& w, int32_t x) {
              const int32_t cube = w.apply(F::mul, x, w.apply(F::mul, x, x));
              const int32_t inner = w.apply(F::add, x, w.apply(F::mul, cube, w.number(0.044715)));
              const int32_t tanh = w.apply(F::tanh, w.apply(F::mul, inner, w.number(0.7978845608)));
              return w.apply(F::mul, w.apply(F::mul, x, w.number(0.5)), w.apply(F::add, tanh, w.number(1)));
            }),
            Activation::gelu_by_tanh);
  EXPECT_EQ(found([](Writer& w, int32_t x) {
              return w.apply(F::mul, x, w.apply(F::sigmoid, w.apply(F::mul, x, w.number(1.702))));
            }),
            std::nullopt)
      << "another approximation of GELU";
  EXPECT_EQ(found([](Writer& w, int32_t x) { return w.apply(F::min, w.apply(F::max, x, w.number(0)), w.number(6)); }),
            std::nullopt);
  EXPECT_EQ(found([](Writer& w, int32_t x) { return w.apply(F::mul, x, w.apply(F::sigmoid, w.load(Layout::dense))); }),
            std::nullopt);
}

TEST(LinearEpilogue, OtherForms) {
  const auto is_found = [](const std::function<int32_t(Writer&)>& write) {
    Writer w;
    const int32_t result = write(w);
    return w.end(result).has_value();
  };
  EXPECT_FALSE(is_found([](Writer& w) { return w.apply(F::add, 0, w.number(1)); }));
  EXPECT_FALSE(is_found([](Writer& w) { return w.apply(F::mul, 0, w.load(Layout::columns)); }));
  EXPECT_FALSE(is_found([](Writer& w) { return w.apply(F::mul, 0, 0); }));
  EXPECT_FALSE(is_found([](Writer& w) { return w.apply(F::sub, 0, w.load(Layout::columns)); }));
  EXPECT_FALSE(is_found([](Writer& w) { return w.apply(F::add, 0, w.load(Layout::general)); }));
  EXPECT_FALSE(is_found([](Writer& w) { return w.load(Layout::dense); })) << "without the sum";
  EXPECT_FALSE(is_found([](Writer& w) { return w.apply(F::max, 0, w.load(Layout::dense)); }));
  EXPECT_FALSE(is_found([](Writer& w) {
    const int32_t residual = w.load(Layout::dense);
    return w.apply(F::add, w.apply(F::sub, 0, residual), residual);
  })) << "an infinity less itself is none";
  EXPECT_FALSE(is_found(
      [](Writer& w) { return w.apply(F::add, w.apply(F::add, 0, w.load(Layout::dense)), w.load(Layout::dense)); }));
}

}  // namespace
}  // namespace camshaft::cuda::linear_epilogue_test
