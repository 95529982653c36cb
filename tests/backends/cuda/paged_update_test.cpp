// Updates of caches in blocks on a GPU, against the reference.
#include "ir/ops/paged_update.h"

#include <gtest/gtest.h>

#include "backends/cuda/run_node.h"
#include "reference/random_paged_update.h"

namespace camshaft::cuda::paged_update_test {
namespace {

double tolerance_of(DType a, DType b) {
  const auto one = [](DType t) { return t == DType::bf16 ? 8e-3 : t == DType::f16 ? 1e-3 : 1e-6; };
  return std::max(one(a), one(b));
}

TEST(CudaPagedUpdate, RandomSteps) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  const std::tuple<DType, DType, DType> types[] = {
      {DType::f16, DType::f16, DType::f16},  {DType::f16, DType::f32, DType::f16},
      {DType::f32, DType::f32, DType::f32},  {DType::f32, DType::f32, DType::f16},
      {DType::bf16, DType::f32, DType::f16}, {DType::bf16, DType::bf16, DType::bf16}};
  for (const auto& [rows, tables, cache] : types)
    for (int round = 0; round < 16; ++round) {
      const RandomPagedUpdate made = random_paged_update(random, rows, tables, cache, round % 2 == 0);
      NodeTest test(made.op, made.inputs, "cuda_paged_update", tolerance_of(rows, cache));
      test.outputs = 3;
      test.misaligned = round % 4 == 2;
      test.check();
      if (testing::Test::HasFailure()) return;
    }
}

// More units than a block has threads, and many tokens.
TEST(CudaPagedUpdate, WideRows) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const int64_t tokens : {1, 40}) {
    RandomPagedUpdate made;
    made.op = {32, false, 64};
    Tensor slots(DType::i64, {tokens});
    for (int64_t t = 0; t < tokens; ++t) slots.as_mutable<int64_t>()[t] = (t * 7) % 48;
    made.inputs = {
        random_tensor(random, DType::f16, {tokens, 32 * 80}), random_tensor(random, DType::f16, {tokens, 8 * 80}),
        random_tensor(random, DType::f16, {tokens, 8 * 80}),  random_tensor(random, DType::f16, {tokens, 32}),
        random_tensor(random, DType::f16, {tokens, 32}),      slots,
        random_tensor(random, DType::f16, {3, 16, 8, 80}),    random_tensor(random, DType::f16, {3, 16, 8, 80})};
    NodeTest test(made.op, made.inputs, "cuda_paged_update", 1e-3);
    test.outputs = 3;
    test.check();
  }
}

TEST(CudaPagedUpdate, SlotsBeyondTheCacheAreRefused) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  RandomPagedUpdate made;
  do made = random_paged_update(random, DType::f16, DType::f16, DType::f16, true);
  while (made.inputs[5].size() < 2);
  const double slot = 1e9;
  ops::store_elements(made.inputs[5].dtype(), made.inputs[5].mutable_data(), 1, 1, 1, &slot);
  NodeTest test(made.op, made.inputs, "cuda_paged_update", 1e-3);
  test.outputs = 3;
  EXPECT_THROW(test.run(), Error);
}

}  // namespace
}  // namespace camshaft::cuda::paged_update_test
