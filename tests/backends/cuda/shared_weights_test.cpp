// Contractions whose epilogue reads the weights too: the kernel has them packed, and yet they must be there as they
// were.
#include "backends/cuda/libraries/libraries.h"
#include "backends/cuda/run_product.h"
#include "backends/cuda/run_region.h"

namespace camshaft::cuda::shared_weights_test {
namespace {

using F = ScalarFunction;

void check(const Op& anchor, const std::vector<Tensor>& operands, const std::string& tactic) {
  const DType dtype = operands[0].dtype();
  for (const F function : {F::add, F::max}) {
    RegionTest test(anchor, operands);
    // A library knows no maximum of two operands, and one that leaves the sums to us is not asked for what it knows.
    if (tactic == (function == F::add ? "cuda_blas_sums" : "cuda_blas")) continue;
    test.last = test.apply(function, {test.wide(test.body.inputs[1]), test.last});
    SCOPED_TRACE(tactic);
    test.make(tactic, tolerance(dtype)).check();
  }
}

TEST(CudaSharedWeights, OfProducts) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor w = random_tensor(random, dtype, {24, 24});
    check(ops::MatMul{}, {random_tensor(random, dtype, {24, 24}), w}, "cuda_contract");
    check(ops::MatMul{}, {random_tensor(random, dtype, {3, 3, 3}), random_tensor(random, dtype, {3, 17})},
          "cuda_contract");
    if (!blas_library().problem.empty()) continue;
    check(ops::MatMul{}, {random_tensor(random, dtype, {24, 24}), w}, "cuda_blas");
    if (dtype == DType::f16) check(ops::MatMul{}, {random_tensor(random, dtype, {24, 24}), w}, "cuda_blas_sums");
  }
}

// Shapes in which [out, in, height, width] broadcasts to images that are channels last.
TEST(CudaSharedWeights, OfConvolutions) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16}) {
    ops::Conv op;
    op.strides = op.dilations = {1, 1};
    op.pads = Shape{0, 0, 0, 0};
    op.channels_last = true;
    check(op, {random_tensor(random, dtype, {8, 4, 9, 4}), random_tensor(random, dtype, {8, 4, 1, 8})},
          "cuda_contract");
    op.groups = 8;
    check(op, {random_tensor(random, dtype, {8, 2, 9, 8}), random_tensor(random, dtype, {8, 1, 1, 8})},
          "cuda_depthwise");
    ops::ConvTranspose transposed;
    transposed.strides = transposed.dilations = {1, 1};
    transposed.pads = Shape{0, 0, 0, 0};
    transposed.output_padding = Shape{0, 0};
    transposed.channels_last = true;
    check(transposed, {random_tensor(random, dtype, {4, 8, 3, 4}), random_tensor(random, dtype, {4, 8, 1, 8})},
          "cuda_conv_transpose");
  }
}

}  // namespace
}  // namespace camshaft::cuda::shared_weights_test
