// Convolutions by cuDNN, against the reference. Its graphs have no stand-in: these tests need a GPU.
#include "backends/cuda/libraries/dnn.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "backends/cuda/run_product.h"
#include "backends/cuda/run_region.h"

namespace camshaft::cuda::dnn_test {
namespace {

using F = ScalarFunction;

#define SKIP_WITHOUT_DNN() \
  SKIP_WITHOUT_GPU();      \
  if (!dnn_library().problem.empty()) GTEST_SKIP() << dnn_library().problem

struct Image {
  Dims x;  // channels last
  int64_t out = 16;
  Dims kernel = {3, 3}, strides = {1, 1}, dilations = {1, 1}, pads = {1, 1, 1, 1};
};

RegionTest convolution(const Image& c, DType dtype, Random& random, bool bias = true) {
  ops::Conv op;
  op.strides = c.strides;
  op.dilations = c.dilations;
  op.pads = Shape(c.pads.begin(), c.pads.end());
  op.channels_last = true;
  Dims weights = {c.out, c.x.back()};
  weights.insert(weights.end(), c.kernel.begin(), c.kernel.end());
  std::vector<Tensor> operands{random_tensor(random, dtype, c.x), random_tensor(random, dtype, weights)};
  if (bias) operands.push_back(random_tensor(random, dtype, {c.out}));
  return {op, operands};
}

TEST(CudaDnn, WindowsStridesAndPads) {
  SKIP_WITHOUT_DNN();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool bias : {false, true})
      for (const Image& image :
           {Image{.x = {2, 9, 7, 16}}, Image{.x = {1, 10, 11, 32}, .out = 24, .strides = {2, 2}},
            Image{.x = {2, 5, 6, 40}, .out = 64, .kernel = {1, 1}, .pads = {0, 0, 0, 0}},
            Image{.x = {1, 14, 12, 8}, .out = 8, .dilations = {2, 3}, .pads = {2, 3, 1, 0}},
            Image{.x = {1, 6, 6, 24}, .out = 8, .kernel = {2, 3}, .strides = {1, 2}, .pads = {0, 2, 1, 1}},
            Image{.x = {2, 21, 8}, .kernel = {5}, .strides = {2}, .dilations = {1}, .pads = {2, 1}},
            Image{.x = {0, 4, 4, 8}}})
        convolution(image, dtype, random, bias).make("cuda_dnn", tolerance(dtype)).check();
}

TEST(CudaDnn, ResidualsAndActivations) {
  SKIP_WITHOUT_DNN();
  Random random = test_random();
  using Finish = ValueId (*)(RegionTest&);
  constexpr Finish finishes[] = {
      [](RegionTest& t) { return t.last; },
      [](RegionTest& t) {
        return t.apply(F::max, {t.last, t.number(0)});
      },
      [](RegionTest& t) {
        return t.apply(F::mul, {t.last, t.apply(F::sigmoid, {t.last})});
      },
      [](RegionTest& t) { return t.apply(F::sigmoid, {t.last}); },
      [](RegionTest& t) { return t.gelu(t.last, true); },
      [](RegionTest& t) { return t.gelu(t.last, false); },
  };
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const Finish finish : finishes)
      for (const bool residual : {false, true}) {
        RegionTest t = convolution({.x = {2, 8, 8, 32}}, dtype, random);
        if (residual) t.last = t.apply(F::add, {t.last, t.operand(random_tensor(random, dtype, {2, 8, 8, 16}))});
        t.last = finish(t);
        t.make("cuda_dnn", tolerance(dtype)).check();
      }
}

// Each has a stream of its own, which ends with its run while others go on.
TEST(CudaDnn, StreamsBesideEachOther) {
  SKIP_WITHOUT_DNN();
  Random random = test_random();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([tests = std::vector{convolution({.x = {2, 9, 7, 16}}, DType::f16, random),
                                              convolution({.x = {1, 6, 6, 24}, .out = 8}, DType::f16, random)}] {
      for (int round = 0; round < 10; ++round)
        for (RegionTest test : tests) test.make("cuda_dnn", tolerance(DType::f16)).check();
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(CudaDnn, ReluKeepsNaN) {
  SKIP_WITHOUT_DNN();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    RegionTest t = convolution({.x = {1, 4, 4, 8}}, dtype, random);
    std::vector<double> x(4 * 4 * 8, -0.5);
    x[0] = std::numeric_limits<double>::quiet_NaN();
    t.operands[0] = tensor_of(dtype, {1, 4, 4, 8}, x);
    t.last = t.apply(F::max, {t.last, t.number(0)});
    t.make("cuda_dnn", tolerance(dtype)).check();
  }
}

TEST(CudaDnn, ProductsMisalignedAndWideBias) {
  SKIP_WITHOUT_DNN();
  Random random = test_random();
  for (const DType dtype : types_of_products()) {
    RegionTest t(ops::MatMul{}, {random_tensor(random, dtype, {3, 20, 64}), random_tensor(random, dtype, {64, 128})});
    t.last = t.apply(F::add, {t.last, t.operand(random_tensor(random, DType::f32, {128}))});
    t.constants = {1, 2};
    if (dtype != DType::f32) t.last = t.gelu(t.last, false);
    t.make("cuda_dnn", tolerance(dtype)).check();
    NodeTest misaligned = convolution({.x = {1, 6, 5, 16}}, dtype, random).make("cuda_dnn", tolerance(dtype));
    misaligned.misaligned = true;
    misaligned.check();
  }
}

}  // namespace
}  // namespace camshaft::cuda::dnn_test
