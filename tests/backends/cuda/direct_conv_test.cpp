// Depthwise and transposed convolutions on a GPU, against the reference.
#include <gtest/gtest.h>

#include "backends/cuda/codegen/direct_conv_text.h"
#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/run_node.h"
#include "ir/ops/contract.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda::direct_conv_test {
namespace {

TEST(DirectConvText, Compiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  const std::string finish = R"(
struct Finish {
  struct OfColumns {
    template <class Parameters>
    __device__ void load(const Parameters&, u32, u32) {}
  };
  struct OfRow {
    template <class Parameters>
    __device__ void load(const Parameters&, u32, u32, u32) {}
  };
  template <class Parameters>
  static __device__ void run(const Parameters& p, const f32 (&sum)[8], const OfColumns&, const OfRow&, u32 row,
                             u32 column, u32 count) {
    store_columns<f16, false>(p, row, column, count, sum);
  }
};
)";
  EXPECT_FALSE(
      compiler
          .compile({"transposed", conv_transpose_text({{4, 2}, {2, 2}, {1, 1}}, DType::f16, finish), architecture(75)})
          .empty());
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const DepthwiseFunction& further : {DepthwiseFunction{true, true}, DepthwiseFunction{true, false, true, 4}})
      EXPECT_FALSE(compiler
                       .compile({"depthwise", depthwise_text({{5, 3}, {1, 2}, {1, 1}}, dtype, finish, further),
                                 architecture(90)})
                       .empty());
}

struct Image {
  Dims x;  // channels last
  Dims kernel = {3, 3}, strides = {1, 1}, dilations = {1, 1}, pads = {1, 1, 1, 1};
  bool bias = true;
};

void check(const Image& c, DType dtype, Random& random, bool misaligned = false, const char* variant = "") {
  const int64_t channels = c.x.back();
  ops::Conv op;
  op.strides = c.strides;
  op.dilations = c.dilations;
  op.pads = Shape(c.pads.begin(), c.pads.end());
  op.groups = channels;
  op.channels_last = true;
  Dims weights = {channels, 1};
  weights.insert(weights.end(), c.kernel.begin(), c.kernel.end());
  std::vector<Tensor> operands{random_tensor(random, dtype, c.x), random_tensor(random, dtype, weights)};
  if (c.bias) operands.push_back(random_tensor(random, dtype, {channels}));
  NodeTest test(op, operands, "cuda_depthwise", dtype == DType::f32 ? 2e-6 : dtype == DType::f16 ? 1e-3 : 8e-3);
  test.constants = {1};
  test.misaligned = misaligned;
  test.variant = variant;
  test.check();
}

TEST(CudaDepthwise, WindowsStridesAndPads) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool misaligned : {false, true}) {
      check({.x = {2, 9, 7, 16}}, dtype, random, misaligned);
      check({.x = {1, 10, 11, 13}, .strides = {2, 2}}, dtype, random, misaligned);
      if (dtype == DType::bf16) continue;  // each is a text of its own to compile
      check({.x = {1, 12, 9, 24}, .kernel = {7, 7}, .pads = {3, 3, 3, 3}, .bias = false}, dtype, random, misaligned);
      check({.x = {1, 9, 8, 8}, .dilations = {2, 3}, .pads = {2, 3, 1, 0}}, dtype, random, misaligned);
      check({.x = {2, 6, 6, 10}, .kernel = {2, 5}, .strides = {1, 3}, .pads = {0, 2, 1, 4}}, dtype, random, misaligned);
      check({.x = {2, 20, 8}, .kernel = {5}, .strides = {1}, .dilations = {1}, .pads = {2, 2}}, dtype, random,
            misaligned);
    }
}

TEST(CudaDepthwise, ManyPixelsInStripsAndEmptyImages) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16}) {
    check({.x = {4, 61, 63, 40}}, dtype, random);
    check({.x = {4, 61, 63, 33}}, dtype, random);
    check({.x = {0, 9, 7, 16}}, dtype, random);
    check({.x = {1, 0, 2, 16}, .pads = {2, 1, 2, 1}}, dtype, random);
  }
}

// A warp for each row of the windows; more items than blocks can be, and a warp of which a part has nothing to do.
TEST(CudaDepthwise, RowsOfWindowsInWarps) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const char* variant : {"pixels=1,rows=1,lines=0", "pixels=4,rows=1,lines=0"}) {
    for (const bool misaligned : {false, true}) {
      check({.x = {1, 12, 9, 24}, .kernel = {7, 7}, .pads = {3, 3, 3, 3}}, DType::f16, random, misaligned, variant);
      check({.x = {1, 9, 8, 8}, .dilations = {2, 3}, .pads = {2, 3, 1, 0}}, DType::f32, random, misaligned, variant);
      check({.x = {2, 6, 6, 10}, .kernel = {2, 5}, .strides = {1, 3}, .pads = {0, 2, 1, 4}, .bias = false}, DType::f32,
            random, misaligned, variant);
    }
    check({.x = {2, 17, 15, 40}, .kernel = {5, 5}, .strides = {2, 2}, .pads = {2, 2, 2, 2}}, DType::bf16, random, false,
          variant);
    check({.x = {0, 9, 7, 16}}, DType::f16, random, false, variant);
    check({.x = {1, 0, 2, 16}, .pads = {2, 1, 2, 1}}, DType::f16, random, false, variant);
  }
}

// Several rows of pixels a thread: rows and columns that the last strips have not, channels that the last block has
// not, windows that leave rows out, and images at addresses or of channels that take the other kernels.
TEST(CudaDepthwise, SeveralLinesOfPixels) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const char* variant : {"pixels=4,rows=0,lines=4", "pixels=4,rows=0,lines=2"}) {
    for (const bool misaligned : {false, true}) {
      check({.x = {1, 12, 9, 24}, .kernel = {7, 7}, .pads = {3, 3, 3, 3}}, DType::f16, random, misaligned, variant);
      check({.x = {1, 9, 8, 8}, .dilations = {2, 3}, .pads = {2, 3, 1, 0}}, DType::f32, random, misaligned, variant);
    }
    check({.x = {2, 6, 6, 8}, .kernel = {2, 5}, .strides = {1, 3}, .pads = {0, 2, 1, 4}, .bias = false}, DType::f32,
          random, false, variant);
    check({.x = {2, 17, 15, 40}, .kernel = {5, 5}, .strides = {2, 2}, .pads = {2, 2, 2, 2}}, DType::bf16, random, false,
          variant);
    check({.x = {3, 13, 18, 72}, .strides = {3, 1}, .dilations = {1, 2}}, DType::f16, random, false, variant);
    check({.x = {0, 9, 7, 16}}, DType::f16, random, false, variant);
    check({.x = {1, 0, 2, 16}, .pads = {2, 1, 2, 1}}, DType::f16, random, false, variant);
  }
}

struct Transposed {
  Dims x;  // channels last
  int64_t out = 8;
  Dims kernel = {2, 2}, strides = {2, 2}, dilations = {1, 1}, pads = {0, 0, 0, 0}, output_padding = {0, 0};
};

void check_transposed(const Transposed& c, DType dtype, Random& random, bool misaligned = false) {
  ops::ConvTranspose op;
  op.strides = c.strides;
  op.dilations = c.dilations;
  op.pads = Shape(c.pads.begin(), c.pads.end());
  op.output_padding = Shape(c.output_padding.begin(), c.output_padding.end());
  op.channels_last = true;
  Dims weights = {c.x.back(), c.out};
  weights.insert(weights.end(), c.kernel.begin(), c.kernel.end());
  NodeTest test(
      op,
      {random_tensor(random, dtype, c.x), random_tensor(random, dtype, weights), random_tensor(random, dtype, {c.out})},
      "cuda_conv_transpose",
      dtype == DType::f32   ? 4e-6
      : dtype == DType::f16 ? 1e-3
                            : 8e-3);
  test.constants = {1};
  test.misaligned = misaligned;
  test.check();
}

TEST(CudaConvTranspose, WindowsStridesAndPads) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool misaligned : {false, true}) {
      check_transposed({.x = {2, 5, 7, 16}}, dtype, random, misaligned);
      check_transposed({.x = {1, 4, 5, 11}, .out = 13}, dtype, random, misaligned);
      if (dtype == DType::bf16) continue;  // each is a text of its own to compile
      check_transposed({.x = {1, 6, 6, 8}, .out = 16, .kernel = {4, 4}, .pads = {1, 1, 1, 1}}, dtype, random,
                       misaligned);
      check_transposed({.x = {1, 4, 5, 8},
                        .kernel = {3, 2},
                        .strides = {3, 1},
                        .dilations = {1, 2},
                        .pads = {1, 0, 0, 2},
                        .output_padding = {2, 0}},
                       dtype, random, misaligned);
      check_transposed({.x = {1, 9, 8},
                        .out = 3,
                        .kernel = {3},
                        .strides = {4},
                        .dilations = {2},
                        .pads = {1, 0},
                        .output_padding = {1}},
                       dtype, random, misaligned);
      check_transposed({.x = {1, 0, 3, 8}, .kernel = {4, 4}, .strides = {1, 1}}, dtype, random, misaligned);
    }
}

}  // namespace
}  // namespace camshaft::cuda::direct_conv_test
