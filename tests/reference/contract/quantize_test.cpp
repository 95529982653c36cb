#include "ir/ops/quantize.h"

#include <cmath>
#include <limits>

#include "reference/single_op.h"

namespace camshaft::ops::quantize_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor u8(Dims dims, const std::vector<uint8_t>& values) {
  return Tensor::of<uint8_t>(DType::u8, std::move(dims), values);
}
Tensor i8(Dims dims, const std::vector<int8_t>& values) {
  return Tensor::of<int8_t>(DType::i8, std::move(dims), values);
}

std::vector<int64_t> steps(const Quantize& op, const std::vector<Tensor>& inputs) {
  const Tensor y = run_op(op, inputs)[0];
  EXPECT_EQ(y.dtype(), op.dtype);
  return y.to_ints();
}

TEST(Quantize, RoundsHalfToEvenThenShiftsThenSaturates) {
  const Tensor x = f32({10}, {0.5, 1.5, 2.5, -0.5, 2, 1000, -1000, infinity, -infinity, std::nanf("")});
  const Tensor one = f32({}, {1});
  EXPECT_EQ(steps({}, {x, one, u8({}, {3})}), (std::vector<int64_t>{3, 5, 5, 3, 5, 255, 0, 255, 0, 0}));
  EXPECT_EQ(steps({DType::i8}, {x, one}), (std::vector<int64_t>{0, 2, 2, 0, 2, 127, -128, 127, -128, 0}));
  EXPECT_EQ(steps({DType::i4}, {x, one}), (std::vector<int64_t>{0, 2, 2, 0, 2, 7, -8, 7, -8, 0}));
  EXPECT_EQ(steps({DType::u4}, {x, one}), (std::vector<int64_t>{0, 2, 2, 0, 2, 15, 0, 15, 0, 0}));
  EXPECT_EQ(steps({DType::i2}, {x, one}), (std::vector<int64_t>{0, 1, 1, 0, 1, 1, -2, 1, -2, 0}));
  EXPECT_EQ(steps({DType::u2}, {x, one}), (std::vector<int64_t>{0, 2, 2, 0, 2, 3, 0, 3, 0, 0}));
  EXPECT_EQ(steps({DType::i16}, {x, one}), (std::vector<int64_t>{0, 2, 2, 0, 2, 1000, -1000, 32767, -32768, 0}));
  EXPECT_EQ(steps({DType::u16}, {x, one}), (std::vector<int64_t>{0, 2, 2, 0, 2, 1000, 0, 65535, 0, 0}));
}

TEST(Quantize, FloatsAreNotRoundedToIntegers) {
  const Tensor x = f32({4}, {0.5, 1.0625, 1000, -1000});
  const auto values = [&](const Quantize& op) { return run_op(op, {x, f32({}, {1})})[0].to_doubles(); };
  EXPECT_EQ(values({DType::f8e4m3}), (std::vector<double>{0.5, 1, 448, -448}));
  EXPECT_EQ(values({DType::f8e5m2}), (std::vector<double>{0.5, 1, 1024, -1024}));
  EXPECT_EQ(values({DType::f4e2m1}), (std::vector<double>{0.5, 1, 6, -6}));
  EXPECT_TRUE(std::isnan(values({.dtype = DType::f8e4m3, .saturate = false})[2]));
}

TEST(Quantize, TheQuotientHasThePrecisionThatIsSaid) {
  const Tensor x = f32({1}, {2051.5F}), scale = f32({}, {1});
  EXPECT_EQ(steps({.dtype = DType::i16}, {x, scale}), (std::vector<int64_t>{2052}));
  EXPECT_EQ(steps({.dtype = DType::i16, .precision = DType::bf16}, {x, scale}), (std::vector<int64_t>{2048}));
  // 0.3 / 0.2 is below one and a half in f32, where it rounds to 1, and just that in f16.
  const Tensor y = f32({1}, {0.29998779F}), fifth = f32({}, {0.19995117F});
  EXPECT_EQ(steps({.dtype = DType::i16, .precision = DType::f16}, {y, fifth}), (std::vector<int64_t>{2}));
}

TEST(Quantize, ParametersOfAxesAndBlocks) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(steps({.axis = 1}, {x, f32({3}, {1, 0.5, 0.25}), u8({3}, {0, 1, 2})}),
            (std::vector<int64_t>{1, 5, 14, 4, 11, 26}));
  EXPECT_EQ(steps({.axis = 0}, {x, f32({2}, {1, 0.5})}), (std::vector<int64_t>{1, 2, 3, 8, 10, 12}));
  // The last block is cut off; the zero point is one a row.
  EXPECT_EQ(steps({.axis = 1, .block = 2}, {x, f32({2, 2}, {1, 0.5, 0.25, 1}), u8({2, 1}, {0, 100})}),
            (std::vector<int64_t>{1, 2, 6, 116, 120, 106}));
  EXPECT_EQ(steps({.axis = 0, .block = 2}, {f32({3}, {1, 2, 3}), f32({2}, {1, 0.5})}), (std::vector<int64_t>{1, 2, 6}));
  EXPECT_EQ(steps({}, {f32({0, 3}, {}), f32({}, {1})}), std::vector<int64_t>{});
}

TEST(Dequantize, ByHand) {
  const auto numbers = [](const Dequantize& op, const std::vector<Tensor>& inputs) {
    return run_op(op, inputs)[0].to_doubles();
  };
  EXPECT_EQ(numbers({}, {i8({3}, {-128, 0, 127}), f32({}, {0.5}), i8({}, {-128})}),
            (std::vector<double>{0, 64, 127.5}));
  EXPECT_EQ(numbers({DType::f16, 1, 2}, {u8({2, 3}, {1, 2, 3, 4, 5, 6}), f32({2, 2}, {1, 10, 100, 1000})}),
            (std::vector<double>{1, 2, 30, 400, 500, 6000}));
  // In i32 the difference is exact, and wraps; f32 would round before it.
  const auto i32 = [](Dims dims, const std::vector<int32_t>& v) { return Tensor::of(DType::i32, std::move(dims), v); };
  EXPECT_EQ(numbers({}, {i32({2}, {(1 << 24) + 1, 5}), f32({}, {2}), i32({}, {1 << 24})}),
            (std::vector<double>{2, 2.0 * (5 - (1 << 24))}));
  EXPECT_EQ(numbers({}, {i32({1}, {INT32_MIN}), f32({}, {1}), i32({}, {1})}), (std::vector<double>{0x1p31}));
  // Steps from a table of floats.
  EXPECT_EQ(numbers({DType::f32, 0, 2}, {f32({3}, {0.25, -1, 0.5}), f32({2}, {2, 4})}),
            (std::vector<double>{0.5, -2, 2}));
}

TEST(Quantize, WhatTheRulesRefuse) {
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6}), one = f32({}, {1});
  const auto message = [](const Op& op, const std::vector<Tensor>& inputs) {
    return error_of([&] { run_op(op, inputs); });
  };
  const auto expect_in = [](const std::string& what, const std::string& text) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  expect_in("quantised to f32", message(Quantize{DType::f32}, {x, one}));
  expect_in("rounded to i32", message(Quantize{.precision = DType::i32}, {x, one}));
  expect_in("the zero point is i8, the output u8", message(Quantize{}, {x, one, i8({}, {1})}));
  expect_in("the scale is bool", message(Quantize{}, {x, Tensor::of<uint8_t>(DType::boolean, {}, {1})}));
  expect_in("2 elements, axis 1 of the input 3", message(Quantize{.axis = 1}, {x, f32({2}, {1, 1})}));
  expect_in("axis 2 does not exist", message(Quantize{.axis = 2}, {x, f32({2}, {1, 1})}));
  expect_in("are not 2 blocks of 4", message(Quantize{.axis = 1, .block = 4}, {x, f32({2, 2}, {1, 1, 1, 1})}));
  expect_in("block_size is missing", message(Quantize{.axis = 1}, {x, f32({2, 2}, {1, 1, 1, 1})}));
  expect_in("axis 0 has size 3 in the scale", message(Quantize{.axis = 1}, {x, f32({3, 3}, std::vector<float>(9, 1))}));
  expect_in("has 3 axes", message(Quantize{}, {x, f32({1, 1, 1}, {1})}));
  expect_in("is negative", message(Quantize{.block = -1}, {x, one}));
  expect_in("i64 is no quantised type", message(Dequantize{}, {i64({1}, {1}), one}));
  expect_in("dequantised to i32", message(Dequantize{DType::i32}, {u8({1}, {1}), one}));
  expect_in("the zero point is i8, the input u8", message(Dequantize{}, {u8({1}, {1}), one, i8({}, {1})}));
  expect_in("not 1 inputs", message(Dequantize{}, {u8({1}, {1})}));
}

// Sizes that only running tells are checked then.
TEST(Quantize, ParametersThatDoNotFitWhenRunning) {
  const std::vector<Tensor> inputs{f32({3}, {1, 2, 3}), f32({2}, {1, 1})};
  const std::vector<TensorType> types{{DType::u8, {Dim::symbol("n")}}};
  const std::vector<Graph> bodies;
  const SymbolBindings bindings;
  const std::string text = error_of([&] {
    Quantize{}.evaluate(EvalContext{inputs, types, bindings, bodies, test_pool()});
  });
  EXPECT_NE(text.find("[2] does not fit an input of [3]"), std::string::npos) << text;
}

}  // namespace
}  // namespace camshaft::ops::quantize_test
