#include "ir/ops/weight_only.h"

#include <cmath>
#include <limits>

#include "ir/ops/quantized.h"
#include "reference/element_io.h"
#include "reference/single_op.h"

namespace camshaft::ops::weight_only_test {
namespace {

Tensor floats(Dims dims, const std::vector<float>& values) {
  return Tensor::of<float>(DType::f32, std::move(dims), values);
}

Tensor packed(DType dtype, Dims dims, const std::vector<uint8_t>& bytes) {
  Tensor t(dtype, std::move(dims));
  std::copy(bytes.begin(), bytes.end(), t.as_mutable<uint8_t>());
  return t;
}

TEST(WeightOnlyMatMul, ByHand) {
  // Columns 1 2 3 and -1 -2 7, in blocks of two.
  const Tensor x = floats({2, 3}, {1, 10, 100, 0, 1, 0});
  const Tensor steps = packed(DType::i4, {2, 3}, {0x21, 0xF3, 0x7E});
  const Tensor scale = floats({2, 2}, {1, 2, 0.5, 3});
  EXPECT_EQ(run_op(WeightOnlyMatMul{2, true}, {x, steps, scale})[0], floats({2, 2}, {621, 2089.5, 2, -1}));
  const Tensor zero = packed(DType::i4, {}, {1});
  EXPECT_EQ(run_op(WeightOnlyMatMul{2, true}, {x, steps, scale, zero})[0], floats({2, 2}, {410, 1784, 1, -1.5}));
  EXPECT_EQ(run_op(WeightOnlyMatMul{2, true}, {x, steps, scale, floats({2, 2}, {0.5, 0, 0, 0.5})})[0],
            floats({2, 2}, {615.5, 1939.5, 1.5, -1}));
}

TEST(WeightOnlyMatMul, OfARowAndOfColumns) {
  const Tensor steps = packed(DType::u8, {2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(run_op(WeightOnlyMatMul{2, false}, {floats({2}, {1, 10}), steps, floats({1, 2}, {1, 2})})[0],
            floats({2}, {31, 84}));
}

TEST(WeightOnlyMatMul, OfNarrowFloats) {
  // Weights that f16 does not have: they are not rounded before the sum is.
  const auto halves = [](DType dtype, Dims dims, const std::vector<double>& values) {
    Tensor t(dtype, std::move(dims));
    store_elements(dtype, t.mutable_data(), 0, 1, t.size(), values.data());
    return t;
  };
  const Tensor steps = packed(DType::u8, {1, 2}, {1, 1}), scale = floats({1, 1}, {1.0F + 0x1p-12F});
  for (const DType dtype : {DType::f16, DType::bf16}) {
    // Of 1 as the weight this would be half way to the next number, and rounded down.
    const double large = dtype == DType::f16 ? 2048 : 256;
    EXPECT_EQ(run_op(WeightOnlyMatMul{2, true}, {halves(dtype, {1, 2}, {large, 1}), steps, scale})[0],
              halves(dtype, {1, 1}, {large + 2}));
  }
  const Tensor x = halves(DType::f16, {1, 2}, {3, 5});
  EXPECT_EQ(run_op(WeightOnlyMatMul{2, true}, {x, steps, halves(DType::f16, {1, 1}, {0.5})})[0],
            halves(DType::f16, {1, 1}, {4}));
}

TEST(WeightOnlyMatMul, WhatItDoesNotTake) {
  const Tensor x = floats({1, 4}, {1, 2, 3, 4}), steps = packed(DType::u4, {2, 4}, {0, 0, 0, 0});
  const auto message = [](const WeightOnlyMatMul& op, const std::vector<Tensor>& inputs) {
    return error_of([&] { run_op(op, inputs); });
  };
  EXPECT_NE(message({4, true}, {x, x, floats({1, 1}, {1})}).find("no steps of f32"), std::string::npos);
  EXPECT_NE(message({4, true}, {steps, steps, floats({2, 1}, {1, 1})}).find("not u4"), std::string::npos);
  EXPECT_NE(message({4, true}, {x, steps, Tensor(DType::bf16, {2, 1})}).find("no scales of bf16"), std::string::npos);
  EXPECT_NE(message({0, true}, {x, steps, floats({2, 1}, {1, 1})}).find("blocks of 0"), std::string::npos);
  EXPECT_NE(message({2, true}, {x, steps, floats({2, 1}, {1, 1})}).find("the blocks of the scale"), std::string::npos);
  EXPECT_NE(message({4, true}, {x, steps, floats({1, 1}, {1})}).find("the scale"), std::string::npos);
  EXPECT_NE(message({4, false}, {x, steps, floats({1, 4}, {1, 1, 1, 1})}).find("summed over"), std::string::npos);
  EXPECT_NE(message({4, true}, {x, steps, floats({2, 1}, {1, 1}), packed(DType::u8, {}, {1})}).find("zero point is u8"),
            std::string::npos);
}

TEST(RoundBlocks, ByHand) {
  // A 127th of 254 is 2: halves to even. The last block has two elements.
  EXPECT_EQ(run_op(RoundBlocks{3}, {floats({5}, {254, 3, 5, -0.25, 0.125})})[0],
            floats({5}, {254, 4, 4, -127 * (0.25F / 127), 64 * (0.25F / 127)}));
  EXPECT_EQ(run_op(RoundBlocks{2}, {floats({2, 2}, {0, 0, 0x1p-140F, 0})})[0], floats({2, 2}, {0, 0, 0, 0}));
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float odd : {nan, infinity, -infinity}) {
    const std::vector<double> y = run_op(RoundBlocks{2}, {floats({4}, {1, odd, 127, 0})})[0].to_doubles();
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
    EXPECT_EQ(y[2], 127);
  }
}

TEST(WeightOnlyMatMul, OfRoundedRows) {
  const Tensor x = floats({1, 4}, {254, 3, 127, 0.4F}), steps = packed(DType::u8, {1, 4}, {1, 10, 100, 200});
  const Tensor scale = floats({1, 1}, {1});
  EXPECT_EQ(run_op(WeightOnlyMatMul{4, true, 2}, {x, steps, scale})[0], floats({1, 1}, {254 + 40 + 12700}));
  EXPECT_NE(error_of([&] {
              run_op(WeightOnlyMatMul{4, true, -1}, {x, steps, scale});
            }).find("blocks of -1"),
            std::string::npos);
}

TEST(ReadBytesAs, LowBitsFirst) {
  const Tensor bytes = packed(DType::u8, {1, 2}, {0x21, 0xF3});
  const Tensor codes = run_op(ReadBytesAs{DType::u4}, {bytes})[0];
  EXPECT_EQ(codes.dims(), (Dims{1, 4}));
  EXPECT_EQ(codes.to_ints(), (std::vector<int64_t>{1, 2, 3, 15}));
  EXPECT_EQ(run_op(ReadBytesAs{DType::u8}, {codes})[0], bytes);
  EXPECT_EQ(run_op(ReadBytesAs{DType::i2}, {bytes})[0].to_ints(), (std::vector<int64_t>{1, 0, -2, 0, -1, 0, -1, -1}));
  const std::string refused = error_of([&] { run_op(ReadBytesAs{DType::u8}, {packed(DType::u4, {1, 3}, {0, 0})}); });
  EXPECT_NE(refused.find("no whole bytes"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::weight_only_test
