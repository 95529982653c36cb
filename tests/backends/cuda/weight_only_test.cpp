// Products with weights of few bits, and what is fused behind them, by the GPU's kernels against the reference.
#include "ir/ops/weight_only.h"

#include <cmath>
#include <limits>
#include <set>

#include "backends/cpu/random_data.h"
#include "backends/cuda/run_product.h"
#include "backends/cuda/run_region.h"
#include "compile/constants/step_fragments.h"
#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::cuda::weight_only_test {
namespace {

using cpu::RandomData;

constexpr const char* rows_tactic = "cuda_weight_only";
constexpr const char* tile_tactic = "cuda_weight_only_tile";
constexpr const char* expanded_tactic = "cuda_expanded_contract";

// Whether kernels for few rows are there for such operands.
bool multiplies(DType dtype) {
  return dtype == DType::f16 || gpu_features().bf16_products;
}

Tensor steps_of(RandomData& random, DType dtype, const Dims& dims, bool extremes = false) {
  Tensor t(dtype, dims);
  const int64_t highest = is_signed(dtype) ? 0x7 : 0xF, lowest = is_signed(dtype) ? 0x8 : 0x0;
  for (size_t i = 0; i < t.bytes(); ++i) {
    const int64_t low = extremes ? (random.coin() ? highest : lowest) : random.integer(0, 15);
    const int64_t high = extremes ? (random.coin() ? highest : lowest) : random.integer(0, 15);
    t.mutable_data()[i] = static_cast<std::byte>(low | high << 4);
  }
  return t;
}

Tensor floats(RandomData& random, DType dtype, const Dims& dims, float scale = 1) {
  const std::vector<float> values = random.floats(element_count(dims), scale);
  return tensor_of(dtype, dims, {values.begin(), values.end()});
}

struct Sizes {
  int64_t m, n, k, block;
  bool transposed;
};

Sizes random_sizes(RandomData& random) {
  const std::vector<int64_t> blocks{16, 32, 48, 64, 128, 256, 0};
  const int64_t k = random.integer(1, random.coin() ? 40 : 600),
                block = blocks[static_cast<size_t>(random.integer(0, 6))];
  return {random.integer(1, random.coin() ? 8 : 36), random.integer(1, random.coin() ? 40 : 150), k,
          block == 0 ? random.integer(k, k + 9) : block, random.coin()};
}

constexpr DType types[] = {DType::u4, DType::i4, DType::u8, DType::i8, DType::u2, DType::i2};

// x, steps, scale and zero point: none, one, one a block, real ones, a real one.
std::vector<Tensor> operands(RandomData& random, const Sizes& s, DType x, DType dtype, int64_t zero_kind,
                             bool extremes = false, DType scale = DType::f32) {
  const int64_t blocks = (s.k + s.block - 1) / s.block;
  const auto matrix = [&](int64_t k) { return s.transposed ? Dims{s.n, k} : Dims{k, s.n}; };
  std::vector<Tensor> made{floats(random, x, {s.m, s.k}), steps_of(random, dtype, matrix(s.k), extremes),
                           floats(random, scale, matrix(blocks), 0.1F)};
  if (zero_kind == 1) made.push_back(steps_of(random, dtype, {}));
  if (zero_kind == 2) made.push_back(steps_of(random, dtype, matrix(blocks)));
  if (zero_kind == 3) made.push_back(floats(random, DType::f32, matrix(blocks), 4));
  if (zero_kind == 4) made.push_back(floats(random, DType::f32, {}, 4));
  return made;
}

// Sums of numbers with f16's steps are rounded in another order than the reference's, then once to the result.
double tolerance_of(DType x, const std::string& tactic) {
  if (tactic != rows_tactic) return tolerance(x);  // weights are rounded, too
  return x == DType::f32 ? 4e-6 : x == DType::f16 ? 6e-4 : 5e-3;
}

NodeTest product(const Sizes& s, std::vector<Tensor> inputs, const std::string& tactic) {
  const DType x = inputs[0].dtype();
  NodeTest test(ops::WeightOnlyMatMul{s.block, s.transposed}, std::move(inputs), tactic, tolerance_of(x, tactic));
  for (size_t i = 1; i < test.inputs.size(); ++i) test.constants.push_back(i);
  return test;
}

TEST(WeightOnly, FewRowsLikeTheReference) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products()) {
    if (!multiplies(x)) continue;
    for (int round = 0; round < 18; ++round) {
      const Sizes s = random_sizes(random);
      const DType scale = x == DType::f16 && random.coin() ? DType::f16 : DType::f32;
      NodeTest test =
          product(s, operands(random, s, x, types[round % 6], random.integer(0, 2), random.integer(0, 3) == 0, scale),
                  rows_tactic);
      test.misaligned = random.integer(0, 3) == 0;
      test.check();
    }
  }
}

// Wide and deep enough for every number of warps, and of blocks that share columns.
TEST(WeightOnly, EveryVariant) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products()) {
    if (!multiplies(x)) continue;
    for (const DType dtype : {DType::u4, DType::i8}) {
      const Sizes s{random.integer(1, 3), 56, random.integer(2600, 2700), random.coin() ? 32 : 128, random.coin()};
      NodeTest test = product(s, operands(random, s, x, dtype, random.integer(0, 2)), rows_tactic);
      const std::vector<std::string> variants = test.variants();
      EXPECT_GT(variants.size(), 8U);
      for (const std::string& variant : variants) {
        test.variant = variant;
        test.check();
      }
    }
  }
}

// Rows of X that pass through shared memory part by part, and more than a block takes.
TEST(WeightOnly, MoreRows) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products()) {
    if (!multiplies(x)) continue;
    for (const int64_t m : {9, 16, 17, 33, 65}) {
      const Sizes s{m, 24, 2200, 64, true};
      product(s, operands(random, s, x, DType::u4, 2), rows_tactic).check();
    }
  }
}

TEST(WeightOnly, TilesLikeTheReference) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products())
    for (int round = 0; round < 12; ++round) {
      const Sizes s = random_sizes(random);
      const DType scale = x == DType::f16 && random.coin() ? DType::f16 : DType::f32;
      NodeTest test =
          product(s, operands(random, s, x, types[round % 6], random.integer(0, 2), random.integer(0, 3) == 0, scale),
                  tile_tactic);
      test.misaligned = random.integer(0, 3) == 0;
      test.check();
    }
}

// One variant of each tile, and some of those whose blocks share k. Returns how many tiles there are.
size_t check_tiles(RandomData& random, const Sizes& s, DType x, DType dtype, int64_t zero_kind, DType scale) {
  NodeTest test = product(s, operands(random, s, x, dtype, zero_kind, false, scale), tile_tactic);
  std::set<std::string> tiles;
  for (const std::string& variant : test.variants())
    if (tiles.insert(variant.substr(0, variant.find("splits="))).second ||
        (variant.find("splits=2") != std::string::npos && random.integer(0, 5) == 0)) {
      test.variant = variant;
      test.check();
    }
  return tiles.size();
}

// Sizes that all tiles have rests of, and of which some are aligned.
TEST(WeightOnly, EveryTile) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products()) {
    const Sizes s{random.integer(130, 140), 8 * random.integer(16, 18), 8 * random.integer(16, 40), 32, random.coin()};
    const DType dtype = random.coin() ? DType::u4 : DType::i8, scale = x == DType::f16 ? DType::f16 : DType::f32;
    EXPECT_GT(check_tiles(random, s, x, dtype, 2, scale), 4U);
  }
}

// More slices of k than the deepest ring has stages, so that the slots of each are used again.
TEST(WeightOnly, RingsGoRound) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products()) {
    const int64_t slice = x == DType::f32 ? 32 : 64;
    const Sizes s{random.integer(3, 20), 48, slice * random.integer(14, 17) - random.integer(0, 9), 64, random.coin()};
    EXPECT_GT(check_tiles(random, s, x, types[random.integer(0, 5)], random.integer(0, 2), DType::f32), 0U);
  }
}

TEST(WeightOnly, ByFloats) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products())
    for (int round = 0; round < 12; ++round) {
      const Sizes s = random_sizes(random);
      const DType scale = x == DType::f16 && random.coin() ? DType::f16 : DType::f32;
      product(s, operands(random, s, x, types[round % 6], round % 5, false, scale), expanded_tactic).check();
    }
}

TEST(WeightOnly, InfinitiesAndNaN) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  const double odd[] = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                        std::numeric_limits<double>::quiet_NaN()};
  for (const DType x : types_of_products()) {
    if (!multiplies(x)) continue;
    for (int round = 0; round < 8; ++round) {
      const Sizes s = random_sizes(random);
      std::vector<Tensor> inputs = operands(random, s, x, types[round % 6], random.integer(0, 2));
      // One row, others beside it stay as they are.
      ops::store_elements(x, inputs[0].mutable_data(), random.integer(0, s.m * s.k - 1), 1, 1,
                          &odd[random.integer(0, 2)]);
      product(s, inputs, rows_tactic).check();
      product(s, inputs, tile_tactic).check();
    }
  }
}

// A layer before the product: computed where its rows are read, or in a kernel of its own.
TEST(WeightOnly, LayersBeforeThem) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products()) {
    if (!multiplies(x)) continue;
    for (int round = 0; round < 4; ++round) {
      const Sizes s{random.integer(1, round < 2 ? 8 : 40), random.integer(1, 80), random.integer(1, 500), 32, true};
      const std::vector<Tensor> all = operands(random, s, x, DType::u4, 0);
      const std::string type(to_string(x)),
          rows = type + "[" + std::to_string(s.m) + ", " + std::to_string(s.k) + "]",
          steps = "u4[" + std::to_string(s.n) + ", " + std::to_string(s.k) + "]",
          scales = "f32[" + std::to_string(s.n) + ", " + std::to_string((s.k + 31) / 32) + "]";
      for (const char* tactic : {rows_tactic, "cuda_chained_weight_only_tile", "cuda_chained_expanded_contract"}) {
        NodeTest test(ops::Region{ops::RegionKind::chain}, {all[0], floats(random, x, {s.m, s.k}), all[1], all[2]},
                      tactic, std::max(2 * tolerance_of(x, tactic), tolerance(x)));
        test.bodies = {parse_graph("graph \"b\" (%g: " + rows + ", %u: " + rows + ", %w: " + steps + ", %c: " + scales +
                                       ") {\n%h = pointwise {function=mul} (%g, %u)\n"
                                       "%y = weight_only_matmul {block=32, transposed=true} (%h, %w, %c)\nreturn %y\n}",
                                   operators())};
        test.constants = {2, 3};
        test.check();
      }
    }
  }
}

// f32 of any size is multiplied as it is: by its three parts.
TEST(WeightOnly, SizesOfRows) {
  SKIP_WITHOUT_GPU();
  if (!multiplies(DType::f32)) GTEST_SKIP() << "the GPU has no products of bf16";
  RandomData random;
  const Sizes s{1, 40, 256, 64, true};
  for (const float size : {0x1p-100F, 1.0F, 0x1p+118F}) {
    std::vector<Tensor> inputs = operands(random, s, DType::f32, DType::u4, 1);
    float* x = inputs[0].as_mutable<float>();
    for (int64_t k = 0; k < s.k; ++k) x[k] *= size * std::ldexp(1.0F, static_cast<int>(random.integer(-20, 0)));
    NodeTest test = product(s, inputs, rows_tactic);
    test.least_scale = 0;
    test.check();
  }
}

// What f16 has as a weight is no bound: (steps - zero)·x is exact, and the scale comes behind.
TEST(WeightOnly, TinyScales) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  const Sizes s{2, 24, 192, 32, true};
  std::vector<Tensor> inputs = operands(random, s, DType::f16, DType::u8, 2);
  for (int64_t i = 0; i < inputs[2].size(); ++i) inputs[2].as_mutable<float>()[i] *= 0x1p-24F;
  NodeTest test = product(s, inputs, rows_tactic);
  test.least_scale = 1e-6;
  test.check();
}

// What stands behind a product: bias, residual and activation.
TEST(WeightOnly, WithAnEpilogue) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  for (const DType x : types_of_products())
    for (const std::string tactic : {rows_tactic, tile_tactic, expanded_tactic}) {
      if (tactic == rows_tactic && !multiplies(x)) continue;
      for (int round = 0; round < 6; ++round) {
        const Sizes s = random_sizes(random);
        std::vector<Tensor> inputs = operands(random, s, x, types[round], 1);
        // Of sums of 20 and more the sigmoid would show how their operands are rounded, and no more.
        for (int64_t i = 0; i < inputs[2].size(); ++i) inputs[2].as_mutable<float>()[i] *= 0.02F;
        RegionTest region(ops::WeightOnlyMatMul{s.block, s.transposed}, inputs);
        region.constants = {1, 2, 3};
        using F = ScalarFunction;
        region.last = region.apply(F::add, {region.last, region.operand(floats(random, x, {s.n}))});
        region.last = region.apply(F::add, {region.last, region.operand(floats(random, x, {s.m, s.n}))});
        region.last = region.apply(F::sigmoid, {region.last});
        NodeTest test = region.make(tactic, 3 * tolerance_of(x, tactic));
        test.misaligned = round % 3 == 2;
        test.check();
      }
    }
}

TEST(WeightOnly, WhatNoKernelTakes) {
  SKIP_WITHOUT_GPU();
  RandomData random;
  // Blocks of other sizes, real zero points and those beyond the steps' range have no kernels for few rows, …
  const Sizes odd{1, 20, 40, 24, true}, even{1, 20, 40, 32, true};
  EXPECT_TRUE(product(odd, operands(random, odd, DType::f16, DType::u4, 0), rows_tactic).variants().empty());
  EXPECT_TRUE(product(odd, operands(random, odd, DType::f16, DType::u4, 0), expanded_tactic).variants().empty());
  EXPECT_FALSE(product(even, operands(random, even, DType::f16, DType::u4, 0), rows_tactic).variants().empty());
  for (const int64_t zero : {3, 4}) {
    EXPECT_TRUE(product(even, operands(random, even, DType::f16, DType::u4, zero), tile_tactic).variants().empty());
    EXPECT_TRUE(product(even, operands(random, even, DType::f16, DType::u4, zero), rows_tactic).variants().empty());
    // … but can be made floats.
    EXPECT_FALSE(
        product(even, operands(random, even, DType::f16, DType::u4, zero), expanded_tactic).variants().empty());
  }
}

}  // namespace
}  // namespace camshaft::cuda::weight_only_test
