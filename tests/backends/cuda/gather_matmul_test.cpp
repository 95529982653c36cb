// Products whose rows choose their matrix on a GPU, against the reference.
#include "ir/ops/gather_matmul.h"

#include <gtest/gtest.h>

#include <cstring>

#include "backends/cuda/run_node.h"
#include "reference/random_gather_matmul.h"

namespace camshaft::cuda::gather_matmul_test {
namespace {

NodeTest test_of(std::vector<Tensor> inputs) {
  const DType rows = inputs[0].dtype();
  return {ops::GatherMatMul{}, std::move(inputs), "cuda_gather_matmul",
          rows == DType::f32   ? 4e-6
          : rows == DType::f16 ? 1e-3
                               : 8e-3};
}

TEST(CudaGatherMatMul, EveryTypeAndShape) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType rows : {DType::f32, DType::f16, DType::bf16})
    for (const DType matrices : {DType::f32, DType::f16, DType::bf16})
      for (const auto& [in, out] :
           {std::pair<int64_t, int64_t>{300, 8}, {67, 16}, {16, 2100}, {9, 13}, {1, 1}, {40, 72}})
        for (const bool misaligned : {false, true}) {
          const DType index = random.integer(0, 1) == 0 ? DType::i32 : DType::i64;
          const GatheredSizes sizes{random.integer(1, 12), in, out, random.integer(1, 4)};
          NodeTest test = test_of(random_gathered(random, sizes, rows, index, matrices));
          test.misaligned = misaligned;
          test.check();
          if (testing::Test::HasFailure()) return;
        }
}

// Prompts: neighbours have one matrix, mostly, and read it together.
TEST(CudaGatherMatMul, ManyRows) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const auto& [in, out] : {std::pair<int64_t, int64_t>{70, 16}, {16, 40}}) {
    const GatheredSizes sizes{130 + random.integer(0, 3), in, out, 3};
    std::vector<Tensor> inputs = random_gathered(random, sizes, DType::f16, DType::i32, DType::f16);
    auto* const indices = inputs[1].as_mutable<int32_t>();
    for (int64_t i = 1; i < sizes.rows; ++i)
      if (random.integer(0, 9) > 0) indices[i] = indices[i - 1];
    test_of(inputs).check();
    for (const int64_t row : {int64_t{5}, sizes.rows - 1}) {
      std::vector<Tensor> one = inputs;
      one[0] = Tensor(DType::f16, {1, in});
      std::memcpy(one[0].mutable_data(), inputs[0].data() + row * in * 2, one[0].bytes());
      one[1] = Tensor::of<int32_t>(DType::i32, {1}, {indices[row]});
      const Tensor alone = test_of(one).run(), together = test_of(inputs).run();
      EXPECT_EQ(0, std::memcmp(alone.data(), together.data() + row * out * 2, alone.bytes())) << row;
    }
  }
}

TEST(CudaGatherMatMul, NothingToDo) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const GatheredSizes& sizes :
       {GatheredSizes{0, 4, 4, 2}, GatheredSizes{3, 0, 4, 2}, GatheredSizes{3, 4, 0, 2}, GatheredSizes{3, 4, 4, 0}})
    test_of(random_gathered(random, sizes, DType::f32, DType::i32, DType::f32)).check();
}

TEST(CudaGatherMatMul, NumbersThatAreNone) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int round = 0; round < 10; ++round) {
    const GatheredSizes sizes{random.integer(1, 9), random.integer(1, 40), 8 * random.integer(1, 9), 2};
    test_of(random_gathered(random, sizes, DType::f32, DType::i32, DType::f16, true)).check();
  }
}

// What is beside a row leaves its result as it is, bit by bit.
TEST(CudaGatherMatMul, ARowDoesNotDependOnOthers) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  const GatheredSizes sizes{7, 500, 24, 3};
  const std::vector<Tensor> all = random_gathered(random, sizes, DType::f16, DType::i32, DType::f16);
  const Tensor together = test_of(all).run();
  for (int64_t row = 0; row < sizes.rows; ++row) {
    std::vector<Tensor> one = all;
    one[0] = Tensor(DType::f16, {1, sizes.in});
    std::memcpy(one[0].mutable_data(), all[0].data() + row * sizes.in * 2, one[0].bytes());
    one[1] = Tensor::of<int32_t>(DType::i32, {1}, {all[1].as<int32_t>()[row]});
    const Tensor alone = test_of(one).run();
    EXPECT_EQ(0, std::memcmp(alone.data(), together.data() + row * sizes.out * 2, alone.bytes())) << row;
  }
}

}  // namespace
}  // namespace camshaft::cuda::gather_matmul_test
