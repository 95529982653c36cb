#include "ir/ops/quantized.h"

#include <cmath>
#include <limits>

#include "reference/single_op.h"

namespace camshaft::ops::quantized_test {
namespace {

Tensor u8(Dims dims, const std::vector<uint8_t>& values) {
  return Tensor::of<uint8_t>(DType::u8, std::move(dims), values);
}
Tensor i8(Dims dims, const std::vector<int8_t>& values) {
  return Tensor::of<int8_t>(DType::i8, std::move(dims), values);
}
Tensor i32(Dims dims, const std::vector<int32_t>& values) {
  return Tensor::of<int32_t>(DType::i32, std::move(dims), values);
}

TEST(IntegerMatMul, ByHand) {
  const Tensor a = u8({2, 2}, {1, 2, 200, 0}), b = i8({2, 2}, {-1, 1, 3, -128});
  EXPECT_EQ(run_op(IntegerMatMul{}, {a, b})[0], i32({2, 2}, {5, -255, -200, 200}));
  EXPECT_EQ(run_op(IntegerMatMul{}, {a, b, u8({}, {1})})[0], i32({2, 2}, {3, -128, -202, 327}));
  EXPECT_EQ(run_op(IntegerMatMul{}, {a, b, u8({2, 1}, {1, 0}), i8({2}, {0, 1})})[0], i32({2, 2}, {3, -129, -200, 0}));
  EXPECT_EQ(run_op(IntegerMatMul{}, {u8({2, 0}, {}), i8({0, 1}, {})})[0], i32({2, 1}, {0, 0}));
}

TEST(IntegerMatMul, WhatItDoesNotTake) {
  const Tensor a = u8({2, 3}, {1, 2, 3, 4, 5, 6}), b = u8({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto message = [](const std::vector<Tensor>& inputs) {
    return error_of([&] { run_op(IntegerMatMul{}, inputs); });
  };
  EXPECT_NE(message({i32({1, 1}, {1}), b}).find("i8 or u8"), std::string::npos);
  EXPECT_NE(message({a, b, i8({}, {1})}).find("zero point of u8 is i8"), std::string::npos);
  EXPECT_NE(message({a, b, u8({1, 3}, {1, 2, 3})}).find("summed over"), std::string::npos);
  EXPECT_NE(message({a, b, u8({3, 1}, {1, 2, 3})}).find("axis 0 has size 3"), std::string::npos);
  EXPECT_NE(message({a, a}).find("sums over sizes that differ"), std::string::npos);
}

TEST(IntegerConv, ByHand) {
  const Tensor x = u8({1, 1, 3}, {1, 2, 3}), w = i8({2, 1, 2}, {1, 1, 2, 0});
  const IntegerConv op{{1}, {Dim(1), Dim(0)}, {1}, 1};
  EXPECT_EQ(run_op(op, {x, w})[0], i32({1, 2, 3}, {1, 3, 5, 0, 2, 4}));
  // The padding is the zero point.
  EXPECT_EQ(run_op(op, {x, w, u8({1}, {1}), i8({2}, {0, 1}), i32({2}, {10, 20})})[0],
            i32({1, 2, 3}, {10, 11, 13, 20, 19, 19}));
  EXPECT_NE(error_of([&] { run_op(op, {x, w, u8({3}, {1, 2, 3})}); }).find("one number"), std::string::npos);
  EXPECT_NE(error_of([&] {
              run_op(op, {x, w, Tensor(), i8({3}, {1, 2, 3})});
            }).find("one a channel"),
            std::string::npos);
}

TEST(DynamicQuantize, ByHand) {
  const std::vector<Tensor> none;
  const auto run = [](const std::vector<float>& values) {
    const std::vector<Tensor> inputs{f32({static_cast<int64_t>(values.size())}, values)};
    return DynamicQuantize{}.evaluate({inputs, {}, {}, {}, test_pool()});
  };
  std::vector<Tensor> y = run({0, 2, -3, -2.5F, 1.34F, 0.5F});  // the standard's example
  EXPECT_EQ(y[0], u8({6}, {153, 255, 0, 26, 221, 179}));
  EXPECT_FLOAT_EQ(y[1].as<float>()[0], 0.0196078438F);
  EXPECT_EQ(y[2], u8({}, {153}));
  y = run({0, 0});
  EXPECT_EQ(y[0], u8({2}, {0, 0}));
  EXPECT_EQ(y[1].as<float>()[0], 1);
  y = run({1, std::numeric_limits<float>::quiet_NaN(), 2});
  EXPECT_EQ(y[0], u8({3}, {0, 0, 0}));
  EXPECT_TRUE(std::isnan(y[1].as<float>()[0]));
  EXPECT_EQ(y[2], u8({}, {0}));
  EXPECT_EQ(run({})[1].as<float>()[0], 1);
}

}  // namespace
}  // namespace camshaft::ops::quantized_test
