// Operators that choose elements on a GPU, against the reference.
#include "ir/ops/select.h"

#include <gtest/gtest.h>

#include <limits>

#include "backends/cuda/codegen/select_text.h"
#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/run_node.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda::select_test {
namespace {

TEST(SelectText, Compiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  for (const DType dtype : {DType::f32, DType::f16, DType::i32, DType::u8})
    EXPECT_FALSE(compiler.compile({"top_k", top_k_text(dtype), architecture(90)}).empty());
}

void check(const Tensor& x, int64_t axis, int64_t k, bool largest) {
  NodeTest test(ops::TopK{axis, largest}, {x, Tensor::from_ints({k})}, "cuda_top_k");
  test.constants = {1};
  test.outputs = 2;
  test.check();
}

TEST(CudaTopK, EveryTypeAndOrder) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::i8, DType::u8})
    for (const bool largest : {false, true}) {
      check(random_tensor(random, dtype, {5, 100}), 1, 10, largest);  // of few different integers
      check(random_tensor(random, dtype, {3, 50, 4}), 1, 50, largest);
      check(random_tensor(random, dtype, {7}), 0, 1, largest);
      check(random_tensor(random, dtype, {1, 4}), 0, 1, largest);
      check(random_tensor(random, dtype, {2, 3}), 1, 0, largest);
    }
}

TEST(CudaTopK, LongLinesInRoundsAndInWhole) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const auto& [size, k] : std::vector<std::pair<int64_t, int64_t>>{
           {2048, 5}, {2049, 1024}, {9000, 300}, {30000, 1000}, {5000, 1}, {1500, 1500}, {2100, 2100}, {20000, 3000}}) {
    check(random_tensor(random, DType::f32, {2, size}), 1, k, true);
    check(random_tensor(random, DType::f32, {size, 3}), 0, k, false);
  }
}

TEST(CudaTopK, NaNIsAboveEverythingAndZerosAreEqual) {
  SKIP_WITHOUT_GPU();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor_of(DType::f32, {9}, {0.0, nan, -0.0, infinity, -nan, 0.0, -infinity, 1, -1});
  for (const bool largest : {false, true}) check(x, 0, 9, largest);
}

}  // namespace
}  // namespace camshaft::cuda::select_test
