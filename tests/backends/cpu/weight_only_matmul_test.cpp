// Products of f32 rows with weights of few bits, and what is fused behind them, against the reference.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "backends/cpu/kernels/gemm/narrow_rounded.h"
#include "backends/cpu/kernels/gemm/narrow_weights.h"
#include "backends/cpu/kernels/gemm/product_shares.h"
#include "backends/cpu/random_data.h"
#include "backends/cpu/run_node.h"
#include "backends/cpu/tactics/weight_only_weights.h"
#include "base/float_types.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "ir/ops/weight_only.h"

namespace camshaft::cpu::weight_only_matmul_test {
namespace {

using F = ScalarFunction;

// Of f32 sums in another order than the reference's, which are f64.
constexpr double rounding = 3e-6;

Tensor steps_of(RandomData& random, DType dtype, const Dims& dims, bool extremes = false) {
  Tensor t(dtype, dims);
  // Of signed types the lowest and the highest, of others the highest and 0.
  const int64_t highest = is_signed(dtype) ? 0x7 : 0xF, lowest = is_signed(dtype) ? 0x8 : 0x0;
  for (size_t i = 0; i < t.bytes(); ++i) {
    const int64_t low = extremes ? (random.coin() ? highest : lowest) : random.integer(0, 15);
    const int64_t high = extremes ? (random.coin() ? highest : lowest) : random.integer(0, 15);
    t.mutable_data()[i] = static_cast<std::byte>(low | high << 4);
  }
  return t;
}

// Rounded to f16, as that or as f32.
Tensor scales(RandomData& random, const Dims& dims) {
  const Tensor wide = floats(random, dims, 0.1F);
  Tensor t(DType::f16, dims);
  for (int64_t i = 0; i < t.size(); ++i) t.as_mutable<uint16_t>()[i] = float_to_f16(wide.as<float>()[i]);
  return random.coin() ? t : wide;
}

struct Sizes {
  int64_t m, n, k, block;
  bool transposed;
};

Sizes random_sizes(RandomData& random) {
  const std::vector<int64_t> blocks{16, 32, 64, 128, 256, 0};
  const int64_t k = random.integer(1, random.coin() ? 40 : 600),
                block = blocks[static_cast<size_t>(random.integer(0, 5))];
  return {random.integer(0, random.coin() ? 8 : 17), random.integer(0, 200), k,
          block == 0 ? random.integer(k, k + 9) : block, random.coin()};
}

constexpr DType types[] = {DType::u4, DType::i4, DType::u8, DType::i8, DType::u2, DType::i2};

// x, steps, scale and zero point: none, one, one a block, or real ones.
std::vector<Tensor> operands(RandomData& random, const Sizes& s, DType dtype, int64_t zero_kind,
                             bool extremes = false) {
  const int64_t blocks = (s.k + s.block - 1) / s.block;
  const auto matrix = [&](int64_t k) { return s.transposed ? Dims{s.n, k} : Dims{k, s.n}; };
  std::vector<Tensor> made{floats(random, {s.m, s.k}), steps_of(random, dtype, matrix(s.k), extremes),
                           scales(random, matrix(blocks))};
  if (zero_kind == 1) made.push_back(steps_of(random, dtype, {}));
  if (zero_kind == 2) made.push_back(steps_of(random, dtype, matrix(blocks)));
  if (zero_kind == 3) made.push_back(floats(random, matrix(blocks), 4));
  if (zero_kind == 4) made.push_back(floats(random, {}, 4));
  return made;
}

NodeTest product(const Sizes& s, const std::vector<Tensor>& inputs, int64_t rounded_block = 0) {
  std::vector<size_t> constants;
  for (size_t i = 1; i < inputs.size(); ++i) constants.push_back(i);
  return NodeTest(ops::WeightOnlyMatMul{s.block, s.transposed, rounded_block}, inputs, constants, "weight_only_matmul",
                  rounding);
}

TEST(WeightOnlyMatMul, LikeTheReference) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      const Sizes s = random_sizes(random);
      const NodeTest test =
          product(s, operands(random, s, types[round % 6], random.integer(0, 4), random.integer(0, 3) == 0));
      for (const int threads : {1, 2, 5}) test.check(threads);
    }
  });
}

// Wide enough for several threads, with parts of K, and for rows that go through floats.
TEST(WeightOnlyMatMul, ManyColumnsAndRows) {
  RandomData random;
  for_each_target([&] {
    for (const int64_t m : {1, 2, 7, 8, 9, 33}) {
      const Sizes s{m, random.integer(260, 900), random.integer(1000, 1600), random.coin() ? 32 : 1600, random.coin()};
      const NodeTest test =
          product(s, operands(random, s, random.coin() ? DType::u4 : DType::i8, random.integer(0, 2)));
      for (const int threads : {1, 2, 5}) test.check(threads);
    }
  });
}

TEST(WeightOnlyMatMul, TheSameBitsOnAnyNumberOfThreads) {
  RandomData random;
  for_each_target([&] {
    for (const int64_t m : {1, 5, 12}) {
      const Sizes s{m, 500, 1200, 64, true};
      const NodeTest test = product(s, operands(random, s, DType::u4, 2));
      const Tensor one = test.run(1)[0];
      for (const int threads : {2, 3, 5}) EXPECT_TRUE(test.run(threads)[0] == one) << m << " rows, " << threads;
    }
  });
}

TEST(WeightOnlyMatMul, InfinitiesAndNaN) {
  RandomData random;
  const float odd[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for_each_target([&] {
    for (int round = 0; round < 20; ++round) {
      Sizes s = random_sizes(random);
      s.m = std::max<int64_t>(s.m, 1);
      std::vector<Tensor> inputs = operands(random, s, types[round % 6], random.integer(0, 3));
      // One row, others beside it stay as they are.
      inputs[0].as_mutable<float>()[random.integer(0, s.m * s.k - 1)] = odd[random.integer(0, 2)];
      const NodeTest test = product(s, inputs);
      test.check(1);
      test.check(2);
    }
  });
}

// Elements of very different sizes in one block, and rows of zeros, of subnormals and of the largest numbers.
TEST(WeightOnlyMatMul, SizesOfRows) {
  RandomData random;
  for_each_target([&] {
    const Sizes s{5, 70, 256, 64, true};
    std::vector<Tensor> inputs = operands(random, s, DType::u4, 1);
    float* x = inputs[0].as_mutable<float>();
    for (int64_t k = 0; k < s.k; ++k) {
      x[k] *= std::ldexp(1.0F, static_cast<int>(random.integer(-30, 0)));
      x[s.k + k] = 0;
      x[2 * s.k + k] *= 0x1p-130F;
      x[3 * s.k + k] *= 0x1p+110F;
      x[4 * s.k + k] *= k == 3 ? 1000.0F : 1.0F;
    }
    for (int64_t row = 0; row < s.m; ++row) {
      std::vector<Tensor> one = inputs;
      one[0] = Tensor(DType::f32, {1, s.k});
      std::copy(x + row * s.k, x + (row + 1) * s.k, one[0].as_mutable<float>());
      Sizes of_one = s;
      of_one.m = 1;
      product(of_one, one).check(1);
    }
  });
}

// What stands behind a product: bias, residual and activation, and more than there are registers for.
TEST(WeightOnlyMatMul, WithAnEpilogue) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 20; ++round) {
      Sizes s = random_sizes(random);
      s.m = std::max<int64_t>(s.m, 1), s.n = std::max<int64_t>(s.n, 1);
      const bool twice = random.coin();
      std::vector<Tensor> inputs = operands(random, s, DType::u4, 1);
      inputs.push_back(floats(random, {s.n}));
      inputs.push_back(floats(random, {s.m, s.n}));
      Graph body;
      std::vector<ValueId> ids;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Dims& dims = inputs[i].dims();
        ids.push_back(body.add_input("x" + std::to_string(i), {inputs[i].dtype(), Shape(dims.begin(), dims.end())}));
      }
      ValueId y = body.add(ops::WeightOnlyMatMul{s.block, s.transposed}, {ids.begin(), ids.begin() + 4}, "product");
      y = body.add(ops::Pointwise{F::add}, {y, ids[4]}, "biased");
      y = body.add(ops::Pointwise{F::add}, {y, ids[5]}, "added");
      if (twice) y = body.add(ops::Pointwise{F::mul}, {y, ids[5]}, "times");
      body.add_output("y", body.add(ops::Pointwise{F::sigmoid}, {y}, "y"));
      // Sums of 20 and more go into a function that ends at 1.
      NodeTest test(ops::Region{ops::RegionKind::contract}, inputs, {1, 2, 3, 4}, "weight_only_matmul", 10 * rounding);
      test.bodies = {body};
      for (const int threads : {1, 2, 5}) test.check(threads);
    }
  });
}

// --- rows that are rounded by blocks ---

TEST(WeightOnlyMatMul, RoundedLikeTheReference) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 90; ++round) {
      Sizes s = random_sizes(random);
      if (round % 9 == 0) s.block = std::min<int64_t>(48, s.k);
      const NodeTest test =
          product(s, operands(random, s, types[round % 6], random.integer(0, 4), random.integer(0, 3) == 0), 32);
      for (const int threads : {1, 2, 5}) test.check(threads);
    }
  });
}

TEST(WeightOnlyMatMul, ManyRoundedRowsAndColumns) {
  RandomData random;
  for_each_target([&] {
    for (const int64_t m : {1, 3, 8, 9, 47, 96, 97, 211}) {
      const Sizes s{m, random.integer(260, 700), random.integer(300, 1600), random.coin() ? 32 : 1600, random.coin()};
      const DType dtype = types[random.integer(0, 3)];
      const NodeTest test = product(s, operands(random, s, dtype, random.integer(0, 3)), 32);
      for (const int threads : {1, 2, 5}) test.check(threads);
    }
  });
}

// The largest sums that a segment can have: they would saturate in less than 16 bits.
TEST(WeightOnlyMatMul, TheLargestRoundedSums) {
  RandomData random;
  for_each_target([&] {
    for (const DType dtype : types) {
      for (const int64_t sign : {-1, 1}) {
        const Sizes s{7, 40, 96, 32, true};
        std::vector<Tensor> inputs = operands(random, s, dtype, 0);
        std::fill_n(inputs[0].as_mutable<float>(), inputs[0].size(), static_cast<float>(sign) * 2.54F);
        // The highest code everywhere.
        const auto most = is_signed(dtype) ? (bit_width(dtype) == 8   ? 0x7F
                                              : bit_width(dtype) == 4 ? 0x77
                                                                      : 0x55)
                                           : 0xFF;
        std::fill_n(inputs[1].as_mutable<uint8_t>(), inputs[1].bytes(), static_cast<uint8_t>(most));
        product(s, inputs, 32).check(1);
      }
    }
  });
}

TEST(WeightOnlyMatMul, RoundedTheSameBitsOnAnyNumberOfThreads) {
  RandomData random;
  for_each_target([&] {
    for (const int64_t m : {1, 5, 12, 130}) {
      const Sizes s{m, 500, 1200, 64, true};
      const NodeTest test = product(s, operands(random, s, DType::u4, 2), 32);
      const Tensor one = test.run(1)[0];
      for (const int threads : {2, 3, 5}) EXPECT_TRUE(test.run(threads)[0] == one) << m << " rows, " << threads;
    }
  });
}

// Tiles have from one row to as many as registers hold, and threads share K where rows are few.
TEST(WeightOnlyMatMul, RoundedRowsHaveTheSameBitsBesideAnyOthers) {
  RandomData random;
  for_each_target([&] {
    if (!has_byte_products()) return;  // rows are floats then
    for (const DType dtype : {DType::u2, DType::u4, DType::u8}) {
      const Sizes s{25, 520, 4100, 32, true};
      const PackedLayout words = narrow_weights(bit_width(dtype), s.k, s.n, s.block).words;
      if (dtype == DType::u8) {
        EXPECT_GT(row_product_parts(words.k, words.panels(), words.width), 1);
      }
      const std::vector<Tensor> inputs = operands(random, s, dtype, 2);
      const Tensor all = product(s, inputs, 32).run(2)[0];
      for (int64_t m = 1; m < s.m; ++m) {
        std::vector<Tensor> fewer = inputs;
        fewer[0] = Tensor(DType::f32, {m, s.k});
        std::copy_n(inputs[0].as<float>(), m * s.k, fewer[0].as_mutable<float>());
        const Tensor y = product({m, s.n, s.k, s.block, s.transposed}, fewer, 32).run(1 + static_cast<int>(m % 3))[0];
        EXPECT_EQ(std::memcmp(y.as<float>(), all.as<float>(), static_cast<size_t>(m * s.n) * sizeof(float)), 0)
            << m << " rows";
      }
    }
  });
}

// Many rows may go by tiles, of the machine's or in plain C++, and few do not.
TEST(WeightOnlyMatMul, RoundedRowsHaveTheSameBitsByTiles) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 60; ++round) {
      Sizes s = random_sizes(random);
      s.m = random.integer(1, round % 3 == 0 ? 140 : 40);
      if (round % 10 == 0) s.n = 700;
      std::vector<Tensor> inputs = operands(random, s, types[round % 6], random.integer(0, 4), round % 4 == 0);
      if (round % 5 == 0)
        inputs[0].as_mutable<float>()[random.integer(0, s.m * s.k - 1)] = std::numeric_limits<float>::infinity();
      const NodeTest test = product(s, inputs, 32);
      set_matrix_unit_for_test(MatrixUnit::none);
      const Tensor without = test.run(1)[0];
      set_matrix_unit_for_test(MatrixUnit::portable);
      const Tensor portable = test.run(1 + round % 3)[0];
      reset_matrix_unit_for_test();
      const Tensor here = test.run(1 + round % 3)[0];
      for (const Tensor* by_tiles : {&portable, &here})
        ASSERT_EQ(std::memcmp(by_tiles->data(), without.data(), without.bytes()), 0)
            << s.m << " x " << s.k << " x " << s.n << ", blocks of " << s.block << ", round " << round;
    }
  });
}

// What is not finite makes its row NaN, whatever the weights are; rows beside it stay as they are.
TEST(WeightOnlyMatMul, RoundedInfinitiesAndNaN) {
  RandomData random;
  const float odd[] = {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::quiet_NaN()};
  for_each_target([&] {
    for (int round = 0; round < 30; ++round) {
      Sizes s = random_sizes(random);
      s.m = std::max<int64_t>(s.m, 2);
      std::vector<Tensor> inputs = operands(random, s, types[round % 6], random.integer(0, 3));
      const int64_t row = random.integer(0, s.m - 1);
      inputs[0].as_mutable<float>()[row * s.k + random.integer(0, s.k - 1)] = odd[random.integer(0, 2)];
      const NodeTest test = product(s, inputs, 32);
      for (const int threads : {1, 2}) {
        test.check(threads);
        const Tensor y = test.run(threads)[0];
        for (int64_t n = 0; n < s.n; ++n) EXPECT_TRUE(std::isnan(y.as<float>()[row * s.n + n]));
      }
    }
  });
}

// Blocks of zeros, of subnormals and of the largest numbers, and elements of very different sizes in one block.
TEST(WeightOnlyMatMul, SizesOfRoundedRows) {
  RandomData random;
  for_each_target([&] {
    for (int kind = 0; kind < 5; ++kind) {
      const Sizes s{3, 70, 250, 64, true};
      std::vector<Tensor> inputs = operands(random, s, DType::u4, 1);
      for (int64_t i = 0; i < inputs[0].size(); ++i) {
        float& x = inputs[0].as_mutable<float>()[i];
        if (kind == 0) x = 0;
        if (kind == 1) x *= 0x1p-130F;
        if (kind == 2) x *= 0x1p+110F;
        if (kind == 3) x *= std::ldexp(1.0F, static_cast<int>(random.integer(-30, 0)));
        // On the edge between two steps.
        if (kind == 4) x = i % 32 == 0 ? 127.0F : static_cast<float>(random.integer(-253, 253)) * 0.5F;
      }
      product(s, inputs, 32).check(1);
    }
  });
}

TEST(WeightOnlyMatMul, RoundedWithAnEpilogue) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 20; ++round) {
      Sizes s = random_sizes(random);
      s.m = random.integer(1, random.coin() ? 8 : 120), s.n = std::max<int64_t>(s.n, 1);
      const bool twice = random.coin();
      std::vector<Tensor> inputs = operands(random, s, DType::u4, 1);
      inputs.push_back(floats(random, {s.n}));
      inputs.push_back(floats(random, {s.m, s.n}));
      Graph body;
      std::vector<ValueId> ids;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const Dims& dims = inputs[i].dims();
        ids.push_back(body.add_input("x" + std::to_string(i), {inputs[i].dtype(), Shape(dims.begin(), dims.end())}));
      }
      ValueId y = body.add(ops::WeightOnlyMatMul{s.block, s.transposed, 32}, {ids.begin(), ids.begin() + 4}, "product");
      y = body.add(ops::Pointwise{F::add}, {y, ids[4]}, "biased");
      y = body.add(ops::Pointwise{F::add}, {y, ids[5]}, "added");
      if (twice) y = body.add(ops::Pointwise{F::mul}, {y, ids[5]}, "times");
      body.add_output("y", body.add(ops::Pointwise{F::sigmoid}, {y}, "y"));
      NodeTest test(ops::Region{ops::RegionKind::contract}, inputs, {1, 2, 3, 4}, "weight_only_matmul", 10 * rounding);
      test.bodies = {body};
      for (const int threads : {1, 2, 5}) test.check(threads);
    }
  });
}

TEST(WeightOnlyMatMul, WhatNoKernelTakes) {
  RandomData random;
  // Words of 8 codes would have elements of two blocks.
  const Sizes s{1, 20, 40, 12, true};
  const NodeTest test = product(s, operands(random, s, DType::u4, 0));
  Graph graph;
  std::vector<ValueId> ids{graph.add_input("x", {DType::f32, {1, 40}})};
  for (size_t i = 1; i < test.inputs.size(); ++i)
    ids.push_back(graph.add_constant("c" + std::to_string(i), test.inputs[i]));
  graph.add_node(test.op, ids, {"y"});
  const SymbolBindings symbols;
  const auto tactics = backend()->tactics({graph, graph.nodes.back(), symbols});
  ASSERT_EQ(tactics.size(), 1U);
  EXPECT_EQ(tactics[0].name, "reference");
}

TEST(WeightOnlyMatMul, PacksAndUnpacks) {
  RandomData random;
  for_each_target([&] {
    for (int round = 0; round < 30; ++round) {
      const Sizes s = random_sizes(random);
      const std::vector<Tensor> inputs = operands(random, s, types[round % 6], 2);
      Graph graph;
      std::vector<ValueId> ids{graph.add_input("x", {DType::f32, {1, Dim(s.k)}})};
      for (size_t i = 1; i < inputs.size(); ++i) ids.push_back(graph.add_constant("c" + std::to_string(i), inputs[i]));
      graph.add_node(ops::WeightOnlyMatMul{s.block, s.transposed}, ids, {"y"});
      const SymbolBindings symbols;
      const RegionView region{graph, graph.nodes.back(), symbols};
      PackedConstants packed;
      packed_weight_only(region, {1, 2, 3, s.block, s.transposed}, packed);
      ASSERT_EQ(packed.all().size(), 3U);
      for (const PackedConstant* constant : packed.all()) {
        const Tensor& raw = inputs[static_cast<size_t>(constant->constant[1] - '0')];
        const Tensor back = unpack_weight_only(*constant, raw.dtype(), raw.dims());
        ASSERT_TRUE(back.defined());
        EXPECT_EQ(back.to_doubles(), raw.to_doubles());
        EXPECT_THROW(unpack_weight_only(*constant, raw.dtype(), {1, 1, 3}), Error);
      }
    }
  });
}

}  // namespace
}  // namespace camshaft::cpu::weight_only_matmul_test
