// Rotary embeddings on a GPU, against the reference.
#include "ir/ops/rotary_embedding.h"

#include <gtest/gtest.h>

#include "backends/cuda/run_node.h"
#include "reference/random_rotary.h"

namespace camshaft::cuda::rotary_embedding_test {
namespace {

TEST(CudaRotaryEmbedding, RandomLayouts) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  const std::tuple<DType, DType, double> types[] = {
      {DType::f32, DType::f32, 1e-6}, {DType::f16, DType::f32, 1e-3}, {DType::bf16, DType::bf16, 8e-3}};
  for (const auto& [dtype, tables, tolerance] : types)
    for (int round = 0; round < 40; ++round) {
      RandomRotary made = random_rotary(random, dtype, tables, round % 4 == 0);
      NodeTest(made.op, std::move(made.inputs), "cuda_rotary_embedding", tolerance).check();
    }
}

}  // namespace
}  // namespace camshaft::cuda::rotary_embedding_test
