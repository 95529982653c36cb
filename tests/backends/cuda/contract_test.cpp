// Matrix products and convolutions on a GPU, against the reference.
#include "ir/ops/contract.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "backends/cuda/run_product.h"

namespace camshaft::cuda::contract_test {
namespace {

void check(const Product& p, DType dtype, Random& random, bool misaligned = false, const std::string& variant = "") {
  check_product(p, dtype, random, "cuda_contract", misaligned, variant);
}

TEST(CudaMatMul, SizesAndTypes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool constant : {false, true})
      for (const bool transpose_b : {false, true})
        for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
                 {1, 1, 1}, {5, 3, 7}, {64, 64, 64}, {33, 72, 130}, {130, 40, 24}, {1, 200, 96}})
          check({.m = m, .n = n, .k = k, .transpose_b = transpose_b, .constant = constant}, dtype, random);
}

TEST(CudaMatMul, EveryVariant) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16}) {
    // Tiles that hang over on both sides, and slices that are not as many in each part.
    NodeTest test(ops::MatMul{},
                  {random_tensor(random, dtype, {40, 7 * 64}), random_tensor(random, dtype, {7 * 64, 72})},
                  "cuda_contract", tolerance(dtype));
    test.constants = {1};
    const std::vector<std::string> variants = test.variants();
    EXPECT_GT(variants.size(), 10u);
    for (const std::string& variant : variants) {
      SCOPED_TRACE(variant);
      test.variant = variant;
      test.check();
    }
  }
}

TEST(CudaMatMul, LargerTiles) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    check({.m = 4096, .n = 256, .k = 16, .constant = true}, dtype, random);
    check({.m = 16, .n = 4096, .k = 40, .transpose_b = true}, dtype, random);
  }
}

// What the device can do in tiles of warpgroups, with as many blocks to a tile as `splits`; those for operands by
// columns have 64 or more of a warpgroup.
std::vector<std::string> warpgroup_variants(int splits, bool by_columns = false) {
  std::vector<std::string> list;
  if (gpu_features().warpgroup_products)
    for (const char* tile :
         {"m=128,n=256,warps=8,stages=4", "m=256,n=128,warps=8,stages=4", "m=128,n=128,warps=8,stages=3",
          "m=128,n=64,warps=8,stages=4", "m=64,n=128,warps=4,stages=3", "m=64,n=64,warps=4,stages=3",
          "m=64,n=128,warps=8,stages=6", "m=64,n=64,warps=4,stages=8"})
      list.push_back(fmt::format("{},wgmma=1,splits={}", tile, splits));
  if (!list.empty() && !by_columns)
    for (const char* tile : {"m=64,n=64,warps=8,stages=8", "m=64,n=32,warps=4,stages=6", "m=64,n=32,warps=4,stages=12"})
      list.push_back(fmt::format("{},wgmma=1,splits={}", tile, splits));
  return list;
}

bool has_tf32() {
  std::string problem;
  const auto gpu = backend_if_any(problem);
  return gpu && gpu->gains_from_rounding(ops::Rounding::tf32);
}

// A copy whose elements TF32 has: products of these are exact.
Tensor in_tf32(const Tensor& x) {
  Tensor made(x.dtype(), x.dims());
  for (int64_t i = 0; i < x.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, x.as<float>() + i, sizeof bits);
    bits = (bits + 0x1000) & 0xffffe000;
    std::memcpy(made.as_mutable<float>() + i, &bits, sizeof bits);
  }
  return made;
}

TEST(CudaMatMul, Tf32) {
  SKIP_WITHOUT_GPU();
  if (!has_tf32()) GTEST_SKIP() << "this GPU has no TF32";
  Random random = test_random();
  for (const bool constant : {false, true})
    for (const bool transpose_b : {false, true})
      for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
               {1, 1, 1}, {5, 3, 7}, {33, 72, 130}, {130, 40, 24}, {3, 20, 3000}, {4, 8, 0}, {0, 4, 4}})
        for (const bool misaligned : {false, true}) {
          if (constant && k == 0) continue;  // nothing to store
          const Tensor a = random_tensor(random, DType::f32, {m, k}),
                       b = random_tensor(random, DType::f32, matrix({}, k, n, transpose_b));
          const auto test = [&](const Tensor& x, const Tensor& w, double difference) {
            NodeTest made(ops::MatMul{.transpose_b = transpose_b, .rounding = ops::Rounding::tf32}, {x, w},
                          "cuda_contract", difference);
            if (constant) made.constants = {1};
            made.misaligned = misaligned;
            made.variant = "tf32=1";
            return made;
          };
          // As the rounding of both operands may move it; and what needs none is as exact as in f32.
          test(a, b, tolerance_of_tf32).check();
          test(in_tf32(a), in_tf32(b), tolerance(DType::f32)).check();
        }
  check({9, 17, 12, true, true, false, {2, 3}, {2, 3}}, DType::f32, random);  // without leave: exact
}

TEST(CudaMatMul, Tf32RoundsToNearest) {
  SKIP_WITHOUT_GPU();
  if (!has_tf32()) GTEST_SKIP() << "this GPU has no TF32";
  // Just above half a step over 1, and just below: cutting the bits off would make 1 of both.
  const Tensor a = tensor_of(DType::f32, {2, 1}, {1 + 0x1p-11 + 0x1p-20, -1 - 0x1p-11 + 0x1p-20}),
               b = tensor_of(DType::f32, {1, 8}, {1, 2, 4, 8, 1, 1, 1, 1});
  NodeTest test(ops::MatMul{.rounding = ops::Rounding::tf32}, {a, b}, "cuda_contract");
  test.variant = "tf32=1";
  const Tensor c = test.run();
  EXPECT_EQ(c.as<float>()[3], 8 * (1 + 0x1p-10F));
  EXPECT_EQ(c.as<float>()[8], -1);
}

TEST(CudaMatMul, Tf32NaNAndInfinity) {
  SKIP_WITHOUT_GPU();
  if (!has_tf32()) GTEST_SKIP() << "this GPU has no TF32";
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  NodeTest test(ops::MatMul{.rounding = ops::Rounding::tf32},
                {tensor_of(DType::f32, {4, 2}, {nan, 1, infinity, 1, 1, -infinity, 1, 2}),
                 tensor_of(DType::f32, {2, 2}, {1, 2, 3, 4})},
                "cuda_contract", tolerance(DType::f32));
  test.variant = "tf32=1";
  test.check();
}

TEST(CudaMatMul, Tf32InEveryTile) {
  SKIP_WITHOUT_GPU();
  if (!has_tf32()) GTEST_SKIP() << "this GPU has no TF32";
  Random random = test_random();
  NodeTest test(ops::MatMul{.rounding = ops::Rounding::tf32},
                {random_tensor(random, DType::f32, {40, 7 * 32}), random_tensor(random, DType::f32, {7 * 32, 72})},
                "cuda_contract", tolerance_of_tf32);
  test.constants = {1};
  int found = 0;
  for (const std::string& variant : test.variants()) {
    if (variant.find("tf32=1") == std::string::npos) continue;
    SCOPED_TRACE(variant);
    ++found;
    test.variant = variant;
    test.check();
  }
  EXPECT_GT(found, 10);
}

TEST(CudaMatMul, TilesOfWarpgroups) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  if (warpgroup_variants(1).empty()) GTEST_SKIP() << "this GPU has no wgmma";
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const std::string& variant : warpgroup_variants(1))
      check({.m = 130, .n = 72, .k = 200, .constant = true}, dtype, random, false, variant);
    for (const std::string& variant : warpgroup_variants(1, true))
      check({.m = 70, .n = 264, .k = 72}, dtype, random, false, variant);
    check({.m = 70, .n = 40, .k = 1700, .constant = true}, dtype, random, false,
          "m=64,n=32,warps=4,stages=12,wgmma=1,splits=2");
    check({.m = 33, .n = 37, .k = 75, .constant = true}, dtype, random, false, "wgmma=1,splits=1");
    check({.m = 24, .n = 32, .k = 40, .transpose_b = true}, dtype, random, true, "wgmma=1");
    check({9, 24, 16, false, false, false, {2, 3}, {2, 3}}, dtype, random, false, "wgmma=1");
    check({.m = 20, .n = 40, .k = 1000, .constant = true}, dtype, random, false,
          "m=64,n=64,warps=4,stages=3,wgmma=1,splits=4");
    check({.m = 20, .n = 40, .k = 1000, .constant = true}, dtype, random, false,
          "m=64,n=64,warps=4,stages=3,wgmma=1,splits=16");
    check({.m = 4, .n = 8, .k = 0}, dtype, random, false, "wgmma=1");
  }
}

// Several tiles to a block, in both of its groups, with rings that begin anew within them and tiles that hang over; and
// blocks of one tile, of which one group has nothing to do.
TEST(CudaMatMul, BlocksThatStay) {
  SKIP_WITHOUT_GPU();
  if (warpgroup_variants(1).empty()) GTEST_SKIP() << "this GPU has no wgmma";
  Random random = test_random();
  const int64_t blocks = list_devices(driver_library().functions)[0].multiprocessors;
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const char* tile : {"m=128,n=128,stages=6,persistent=1", "m=64,n=192,stages=6,persistent=1",
                             "m=128,n=64,stages=8,persistent=1"}) {
      check({.m = 64 * 3 * blocks / 2 + 9, .n = 136, .k = 5 * 64 + 8, .constant = true}, dtype, random, false, tile);
      check({.m = 100, .n = 40, .k = 72, .constant = true}, dtype, random, true, tile);
      check({5, 24, 136, false, true, false, {2 * blocks}, {2 * blocks}}, dtype, random, false, tile);
      check({.m = 8, .n = 16, .k = 0, .transpose_b = true}, dtype, random, false, tile);
    }
}

// The same whose operands are copied as tensors; those that are not aligned are copied otherwise.
TEST(CudaMatMul, BlocksThatStayCopyTensors) {
  SKIP_WITHOUT_GPU();
  if (!gpu_features().tensor_copies) GTEST_SKIP() << "this GPU has no tensor copies";
  Random random = test_random();
  const int64_t blocks = list_devices(driver_library().functions)[0].multiprocessors;
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const char* tile : {"m=128,n=128,stages=6,persistent=1", "m=64,n=192,stages=6,persistent=1",
                             "m=128,n=64,stages=8,persistent=1", "m=128,n=192,stages=5,persistent=1"}) {
      check({.m = 64 * 3 * blocks / 2 + 9, .n = 160, .k = 5 * 64 + 8, .constant = true}, dtype, random, false, tile);
      check({.m = 100, .n = 32, .k = 72, .constant = true}, dtype, random, true, tile);
      check({.m = 1, .n = 320, .k = 24, .constant = true}, dtype, random, false, tile);
    }
}

// The same in clusters, whose blocks copy B for each other: rings that begin anew, rows of tiles that are no multiple
// of the cluster's, and more blocks than have tiles. What is not aligned is copied by threads, each block for itself.
TEST(CudaMatMul, BlocksThatStayCopyForEachOther) {
  SKIP_WITHOUT_GPU();
  if (!gpu_features().tensor_copies) GTEST_SKIP() << "this GPU has no tensor copies";
  Random random = test_random();
  const int64_t blocks = list_devices(driver_library().functions)[0].multiprocessors;
  for (const char* tile : {"m=128,n=128,stages=6,persistent=1,cluster=2", "m=64,n=192,stages=6,persistent=1,cluster=2",
                           "m=64,n=256,stages=5,persistent=1,cluster=2"}) {
    check({.m = 64 * 3 * blocks / 2 + 9, .n = 160, .k = 9 * 64 + 8, .constant = true}, DType::f16, random, false, tile);
    check({.m = 100, .n = 32, .k = 72, .constant = true}, DType::bf16, random, true, tile);
    check({.m = 1, .n = 320, .k = 24, .constant = true}, DType::f16, random, false, tile);
    check({.m = 200, .n = 32, .k = 70, .constant = true}, DType::f16, random, false, tile);
    check({.m = 64 * 35 + 3, .n = 544, .k = 72, .constant = true}, DType::f16, random, false, tile);  // three panels
  }
}

// Rows of A and B are aligned, rows of results are not: of every parity, in all types, whoever has the sums.
TEST(CudaMatMul, RowsOfResultsThatLieAnyhow) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    check({.m = 70, .n = 37, .k = 72, .constant = true}, dtype, random);
    check({.m = 70, .n = 50, .k = 72, .constant = true}, dtype, random, true);
    check({.m = 70, .n = 44, .k = 72, .transpose_b = true}, dtype, random);
    check({.m = 5, .n = 37, .k = 3000, .constant = true}, dtype, random);
  }
  if (warpgroup_variants(1).empty()) return;
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const char* tile : {"m=128,n=64,warps=8,stages=3,wgmma=1,splits=1", "m=128,n=128,stages=6,persistent=1",
                             "m=64,n=192,stages=6,persistent=1"}) {
      check({.m = 200, .n = 161, .k = 136, .constant = true}, dtype, random, false, tile);
      // So many columns are copied as tensors, with rows of zeros behind the last of B.
      for (int64_t n = 1025; n < 1032; ++n)
        check({.m = 70, .n = n, .k = 72, .constant = true}, dtype, random, false, tile);
      check({.m = 1, .n = 1159, .k = 200, .constant = true}, dtype, random, false, tile);
    }
  check({.m = 200, .n = 1067, .k = 136, .constant = true}, DType::f16, random, false,
        "m=64,n=192,stages=6,persistent=1,cluster=2");
}

TEST(CudaMatMul, BlocksThatShareATile) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    check({.m = 3, .n = 20, .k = 3000, .constant = true}, dtype, random);
    check({.m = 16, .n = 64, .k = 1000}, dtype, random);
  }
}

TEST(CudaMatMul, BatchesAndTransposes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        check({9, 17, 12, transpose_a, transpose_b, false, {2, 3}, {2, 3}}, dtype, random);
        check({9, 17, 12, transpose_a, transpose_b, false, {3}, {}}, dtype, random);
        check({8, 16, 24, transpose_a, transpose_b, false, {2, 1, 2}, {3, 1}}, dtype, random);
      }
}

TEST(CudaMatMul, Misaligned) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool transpose_b : {false, true}) check({24, 32, 40, false, transpose_b}, dtype, random, true);
}

TEST(CudaMatMul, EmptyTensors) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    check({.m = 0, .n = 4, .k = 4}, dtype, random);
    check({.m = 4, .n = 4, .k = 0}, dtype, random);
    check({4, 4, 4, false, false, false, {0}, {0}}, dtype, random);
  }
}

TEST(CudaMatMul, NaNAndInfinity) {
  SKIP_WITHOUT_GPU();
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : types_of_products())
    NodeTest(
        ops::MatMul{},
        {tensor_of(dtype, {4, 2}, {nan, 1, infinity, 1, 1, -infinity, 1, 2}), tensor_of(dtype, {2, 2}, {1, 2, 3, 4})},
        "cuda_contract", tolerance(dtype))
        .check();
}

struct Image {
  Dims x;  // channels last
  int64_t out = 8, groups = 1;
  Dims kernel = {3, 3}, strides = {1, 1}, dilations = {1, 1};
  Dims pads = {1, 1, 1, 1};
  bool bias = true;
};

void check(const Image& c, DType dtype, Random& random, bool misaligned = false, const std::string& variant = "") {
  ops::Conv op;
  const bool rounds = variant.find("tf32=1") != std::string::npos;
  if (rounds) op.rounding = ops::Rounding::tf32;
  op.strides = c.strides;
  op.dilations = c.dilations;
  op.pads = Shape(c.pads.begin(), c.pads.end());
  op.groups = c.groups;
  op.channels_last = true;
  Dims weights = {c.out, c.x.back() / c.groups};
  weights.insert(weights.end(), c.kernel.begin(), c.kernel.end());
  std::vector<Tensor> operands{random_tensor(random, dtype, c.x), random_tensor(random, dtype, weights)};
  if (c.bias) operands.push_back(random_tensor(random, dtype, {c.out}));
  NodeTest test(op, operands, "cuda_contract", rounds ? tolerance_of_tf32 : tolerance(dtype));
  test.constants = {1};
  test.misaligned = misaligned;
  test.variant = variant;
  test.check();
}

TEST(CudaConv, Tf32) {
  SKIP_WITHOUT_GPU();
  if (!has_tf32()) GTEST_SKIP() << "this GPU has no TF32";
  Random random = test_random();
  for (const bool misaligned : {false, true}) {
    check({.x = {2, 10, 11, 16}, .out = 24, .strides = {2, 2}}, DType::f32, random, misaligned, "tf32=1");
    check({.x = {1, 12, 9, 3}, .out = 20, .kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}}, DType::f32,
          random, misaligned, "tf32=1");
    check({.x = {2, 5, 6, 40}, .out = 33, .kernel = {1, 1}, .pads = {0, 0, 0, 0}, .bias = false}, DType::f32, random,
          misaligned, "tf32=1");
    check({.x = {1, 6, 5, 12}, .out = 6, .groups = 3}, DType::f32, random, misaligned, "tf32=1");
  }
}

TEST(CudaConv, TilesOfWarpgroups) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  if (warpgroup_variants(1).empty()) GTEST_SKIP() << "this GPU has no wgmma";
  for (const std::string& variant : warpgroup_variants(1))
    check({.x = {2, 9, 11, 24}, .out = 40}, DType::f16, random, false, variant);
  check({.x = {1, 12, 9, 3}, .out = 20, .kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}}, DType::bf16, random,
        false, "wgmma=1");
  check({.x = {1, 9, 7, 32}, .out = 32, .groups = 2}, DType::f16, random, false, "wgmma=1");
}

// Images of 8 channels, windows a pixel apart: rows of them are read from a patch of the image.
TEST(CudaConv, Patches) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  if (warpgroup_variants(1).empty()) GTEST_SKIP() << "this GPU has no wgmma";
  const Image usual{.x = {2, 21, 19, 8}, .out = 40, .kernel = {7, 4}, .strides = {2, 1}, .pads = {3, 2, 3, 1}};
  for (const int rows : {1, 2, 4, 8})
    for (const int columns : {32, 64})
      check(usual, DType::f16, random, false, fmt::format("rows={},n={},warps=8,patch=1", rows, columns));
  check(usual, DType::f16, random, false, "rows=8,n=64,warps=12,patch=1");
  check({.x = {1, 11, 10, 8}, .out = 13, .kernel = {6, 3}, .strides = {2, 1}, .pads = {2, 1, 2, 1}, .bias = false},
        DType::bf16, random, false, "rows=4,n=64,warps=8,patch=1");
  for (const bool misaligned : {false, true}) {
    check({.x = {1, 9, 150, 8}, .out = 104, .kernel = {2, 3}}, DType::f16, random, misaligned,
          "rows=2,n=64,warps=8,patch");
    check({.x = {2, 10, 7, 8}, .kernel = {3, 2}, .strides = {3, 1}, .pads = {0, 0, 2, 3}}, DType::f16, random,
          misaligned, "rows=2,n=32,warps=8,patch");
    check({.x = {2, 21, 8}, .out = 16, .kernel = {4}, .strides = {1}, .dilations = {1}, .pads = {2, 1}}, DType::f16,
          random, misaligned, "rows=1,n=32,warps=8,patch");
  }
  check({.x = {0, 5, 4, 8}, .kernel = {2, 2}}, DType::f16, random, false, "rows=1,n=32,warps=8,patch");
  check({.x = {1, 0, 4, 8}, .kernel = {2, 2}, .pads = {2, 1, 2, 1}}, DType::f16, random, false,
        "rows=1,n=32,warps=8,patch");
}

TEST(CudaConv, WindowsStridesAndPads) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    check({.x = {1, 9, 7, 8}}, dtype, random);
    check({.x = {2, 10, 11, 16}, .out = 24, .strides = {2, 2}}, dtype, random);
    check({.x = {1, 12, 9, 3}, .out = 20, .kernel = {7, 7}, .strides = {2, 2}, .pads = {3, 3, 3, 3}}, dtype, random);
    check({.x = {2, 5, 6, 40}, .out = 33, .kernel = {1, 1}, .pads = {0, 0, 0, 0}, .bias = false}, dtype, random);
    check({.x = {1, 9, 8, 8}, .out = 5, .dilations = {2, 3}, .pads = {2, 3, 1, 0}}, dtype, random);
    check({.x = {1, 6, 6, 24}, .out = 8, .kernel = {2, 3}, .strides = {1, 2}, .pads = {0, 2, 1, 1}}, dtype, random);
  }
}

TEST(CudaConv, Groups) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    check({.x = {1, 6, 5, 32}, .out = 48, .groups = 4}, dtype, random);
    check({.x = {1, 6, 5, 12}, .out = 6, .groups = 3}, dtype, random);
  }
}

TEST(CudaConv, OneAxis) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    check({.x = {2, 21, 8}, .out = 16, .kernel = {5}, .strides = {2}, .dilations = {1}, .pads = {2, 1}}, dtype, random);
}

TEST(CudaConv, DeepSumsMisalignedAndEmpty) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    check({.x = {1, 4, 4, 256}, .out = 16}, dtype, random);
    check({.x = {1, 5, 4, 16}}, dtype, random, true);
    check({.x = {0, 5, 4, 16}}, dtype, random);
  }
}

}  // namespace
}  // namespace camshaft::cuda::contract_test
