// Products by cuBLASLt, against the reference.
#include "backends/cuda/libraries/blas.h"

#include <gtest/gtest.h>

#include <limits>

#include "backends/cuda/run_product.h"
#include "backends/cuda/run_region.h"

namespace camshaft::cuda::blas_test {
namespace {

#define SKIP_WITHOUT_BLAS() \
  SKIP_WITHOUT_GPU();       \
  if (!blas_library().problem.empty()) GTEST_SKIP() << blas_library().problem

void check(const Product& p, DType dtype, Random& random, bool misaligned = false, const std::string& variant = "") {
  check_product(p, dtype, random, "cuda_blas", misaligned, variant);
}

TEST(CudaBlas, SizesTypesAndTransposes) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool constant : {false, true})
      for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true})
          for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
                   {1, 1, 1}, {5, 3, 7}, {64, 64, 64}, {33, 72, 130}, {1, 200, 96}, {90, 1, 40}})
            check(
                {.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b, .constant = constant},
                dtype, random);
}

TEST(CudaBlas, LargeAndDeep) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    check({.m = 512, .n = 256, .k = 64, .constant = true}, dtype, random);
    check({.m = 16, .n = 64, .k = 5000, .constant = true}, dtype, random);
  }
}

// Some need workspace; the last may be of a rank that the library does not have.
TEST(CudaBlas, OtherAlgorithms) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const char* variant : {"rank=1", "rank=2", "rank=3"})
    for (const bool misaligned : {false, true}) {
      check({.m = 70, .n = 40, .k = 2000, .constant = true}, DType::f16, random, misaligned, variant);
      check({.m = 70, .n = 40, .k = 200}, DType::f32, random, misaligned, variant);
    }
}

TEST(CudaBlas, Tf32) {
  SKIP_WITHOUT_BLAS();
  std::string problem;
  if (!backend_if_any(problem)->gains_from_rounding(ops::Rounding::tf32)) GTEST_SKIP() << "this GPU has no TF32";
  Random random = test_random();
  for (const char* variant : {"rank=0,tf32=1", "rank=1,tf32=1", "rank=0,tf32=0"})
    for (const bool misaligned : {false, true}) {
      check({.m = 70, .n = 40, .k = 200}, DType::f32, random, misaligned, variant);
      check({.m = 33, .n = 72, .k = 130, .transpose_b = true, .constant = true}, DType::f32, random, misaligned,
            variant);
    }
  // What the library lacks is a kernel of ours, which may round too.
  check({.m = 20, .n = 24, .k = 997}, DType::f32, random, false, "rank=0,tf32=1");
}

// The emulated library knows nothing for this one.
TEST(CudaBlas, OwnKernelsWhereItHasNone) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  check({.m = 20, .n = 24, .k = 997, .constant = true}, DType::f16, random);
  check({.m = 20, .n = 24, .k = 997}, DType::f32, random);
}

TEST(CudaBlas, Batches) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        check({9, 17, 12, transpose_a, transpose_b, false, {2, 3}, {2, 3}}, dtype, random);
        check({9, 17, 12, transpose_a, transpose_b, false, {3}, {}}, dtype, random);
        check({9, 17, 12, transpose_a, transpose_b, false, {}, {2, 2}}, dtype, random);
        check({8, 16, 24, transpose_a, transpose_b, true, {5}, {1}}, dtype, random);
      }
}

TEST(CudaBlas, MisalignedAndEmpty) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    for (const bool transpose_b : {false, true}) check({24, 32, 40, false, transpose_b}, dtype, random, true);
    check({.m = 0, .n = 4, .k = 4}, dtype, random);
    check({4, 4, 4, false, false, false, {0}, {0}}, dtype, random);
  }
}

TEST(CudaBlas, NaNAndInfinity) {
  SKIP_WITHOUT_BLAS();
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : types_of_products())
    NodeTest(
        ops::MatMul{},
        {tensor_of(dtype, {4, 2}, {nan, 1, infinity, 1, 1, -infinity, 1, 2}), tensor_of(dtype, {2, 2}, {1, 2, 3, 4})},
        "cuda_blas", tolerance(dtype))
        .check();
}

TEST(CudaBlas, ConvolutionsOfOnePixel) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool bias : {false, true})
      for (const Dims& x : {Dims{2, 5, 6, 40}, Dims{1, 7, 3, 3}, Dims{0, 2, 2, 8}}) {
        ops::Conv op;
        op.strides = op.dilations = {1, 1};
        op.pads = Shape{Dim(0), Dim(0), Dim(0), Dim(0)};
        op.channels_last = true;
        std::vector<Tensor> operands{random_tensor(random, dtype, x),
                                     random_tensor(random, dtype, {33, x.back(), 1, 1})};
        if (bias) operands.push_back(random_tensor(random, dtype, {33}));
        NodeTest test(op, operands, "cuda_blas", tolerance(dtype));
        test.constants = {1};
        test.check();
      }
}

using F = ScalarFunction;

RegionTest product(Random& random, DType dtype, int64_t m, int64_t n, int64_t k, const Dims& batch = {}) {
  return {ops::MatMul{},
          {random_tensor(random, dtype, matrix(batch, m, k, false)), random_tensor(random, dtype, {k, n})}};
}

TEST(CudaBlas, BiasResidualAndRelu) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool has_bias : {false, true})
      for (const bool has_residual : {false, true})
        for (const bool has_relu : {false, dtype == DType::f32})
          for (const Dims& batch : {Dims{}, Dims{3}}) {
            RegionTest t = product(random, dtype, 12, 24, 40, batch);
            if (has_bias) t.last = t.apply(F::add, {t.operand(random_tensor(random, dtype, {24})), t.last});
            if (has_residual)
              t.last = t.apply(F::add, {t.last, t.operand(random_tensor(random, dtype, matrix(batch, 12, 24, false)))});
            if (has_relu) t.last = t.apply(F::max, {t.last, t.number(0)});
            t.make("cuda_blas", tolerance(dtype)).check();
          }
}

TEST(CudaBlas, ReluKeepsNaN) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : types_of_products()) {
    RegionTest t = product(random, dtype, 4, 2, 2);
    t.operands = {tensor_of(dtype, {4, 2}, {nan, 1, infinity, 1, 1, -infinity, -1, -2}),
                  tensor_of(dtype, {2, 2}, {1, 2, 3, 4})};
    t.last = t.apply(F::max, {t.last, t.number(0)});
    if (dtype == DType::f32) {
      t.make("cuda_blas", tolerance(dtype)).check();
    } else {
      EXPECT_FALSE(t.is_taken_by("cuda_blas")) << "the library's loses NaN";
    }
  }
}

TEST(CudaBlas, BatchesWithEpilogue) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    RegionTest t(ops::MatMul{}, {random_tensor(random, dtype, {3, 10, 16}), random_tensor(random, dtype, {3, 16, 24})});
    t.constants = {};
    t.last = t.apply(F::mul, {t.last, t.number(0.125)});
    t.last = t.apply(F::add, {t.last, t.operand(random_tensor(random, dtype, {24}))});
    t.last = t.apply(F::sub, {t.operand(random_tensor(random, dtype, {3, 10, 24})), t.apply(F::neg, {t.last})});
    t.make("cuda_blas", tolerance(dtype)).check();
  }
}

TEST(CudaBlas, BiasOfWiderType) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    RegionTest t = product(random, dtype, 12, 24, 40);
    t.last = t.apply(F::add, {t.last, t.operand(random_tensor(random, DType::f32, {24}))});
    t.constants = {1, 2};
    t.make("cuda_blas", tolerance(dtype)).check();
    RegionTest wide = product(random, dtype, 12, 24, 40);
    wide.result = DType::f32;
    wide.last = wide.apply(F::add, {wide.last, wide.operand(random_tensor(random, DType::f32, {24}))});
    wide.make("cuda_blas", tolerance(dtype)).check();
  }
}

TEST(CudaBlas, Gelu) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    RegionTest t = product(random, dtype, 20, 24, 16);
    t.last = t.apply(F::add, {t.last, t.operand(random_tensor(random, dtype, {24}))});
    t.last = t.gelu(t.last, true);
    if (dtype == DType::f32) {
      EXPECT_FALSE(t.is_taken_by("cuda_blas")) << "the library's tanh is an approximation";
    } else {
      t.make("cuda_blas", tolerance(dtype)).check();
    }
  }
}

TEST(CudaBlasSums, EpiloguesOfOurOwn) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    if (dtype == DType::f32) continue;
    for (const auto& [m, n, k] :
         std::vector<std::tuple<int64_t, int64_t, int64_t>>{{12, 24, 40}, {5, 7, 9}, {300, 72, 64}})
      for (int kind = 0; kind < 3; ++kind) {
        RegionTest t = product(random, dtype, m, n, k);
        if (kind == 0) t.last = t.gelu(t.apply(F::add, {t.last, t.operand(random_tensor(random, dtype, {n}))}), false);
        if (kind == 1) t.last = t.apply(F::mul, {t.last, t.operand(random_tensor(random, dtype, {m, 1}))});
        if (kind == 2)
          t.last = t.apply(F::sigmoid, {t.apply(F::mul, {t.last, t.operand(random_tensor(random, dtype, {m, n}))})});
        NodeTest test = t.make("cuda_blas_sums", 3 * tolerance(dtype));  // the sums are rounded too
        test.check();
        test.misaligned = true;
        test.check();
      }
  }
}

TEST(CudaBlas, OtherEpiloguesAreLeftToOthers) {
  SKIP_WITHOUT_BLAS();
  Random random = test_random();
  const auto is_taken = [&](const std::function<ValueId(RegionTest&)>& finish) {
    RegionTest t = product(random, DType::f16, 12, 24, 40);
    t.last = finish(t);
    return t.is_taken_by("cuda_blas");
  };
  const auto tensor = [&](const Dims& dims) { return random_tensor(random, DType::f16, dims); };
  EXPECT_TRUE(is_taken([&](RegionTest& t) { return t.apply(F::add, {t.last, t.operand(tensor({24}))}); }));
  EXPECT_TRUE(is_taken([&](RegionTest& t) { return t.apply(F::add, {t.last, t.operand(tensor({12, 24}))}); }));
  EXPECT_FALSE(is_taken([&](RegionTest& t) { return t.apply(F::mul, {t.last, t.operand(tensor({24}))}); }));
  EXPECT_FALSE(is_taken([&](RegionTest& t) { return t.apply(F::add, {t.last, t.operand(tensor({12, 1}))}); }));
  EXPECT_FALSE(is_taken([&](RegionTest& t) { return t.apply(F::add, {t.last, t.operand(tensor({1}))}); }));
  EXPECT_FALSE(is_taken([&](RegionTest& t) { return t.apply(F::add, {t.last, t.number(1)}); }));
  EXPECT_FALSE(is_taken([&](RegionTest& t) { return t.apply(F::max, {t.last, t.number(0.1)}); }));
  EXPECT_FALSE(is_taken([&](RegionTest& t) { return t.apply(F::sigmoid, {t.last}); }));
  EXPECT_FALSE(is_taken([&](RegionTest& t) { return t.gelu(t.last, false); })) << "by erf";
  EXPECT_FALSE(is_taken([&](RegionTest& t) {
    t.last = t.apply(F::max, {t.last, t.number(0)});
    return t.apply(F::add, {t.last, t.operand(tensor({24}))});
  })) << "a bias behind the activation";
  EXPECT_FALSE(is_taken([&](RegionTest& t) {
    return t.apply(F::add, {t.last, t.operand(random_tensor(random, DType::f32, {24}))});
  })) << "a bias of f32 that is no constant";
}

}  // namespace
}  // namespace camshaft::cuda::blas_test
