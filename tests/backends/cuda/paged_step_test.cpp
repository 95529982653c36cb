// Updates of caches in blocks within the attention over them, on a GPU, against the reference.
#include <gtest/gtest.h>

#include "backends/cuda/device/paged_parameters.h"
#include "backends/cuda/run_node.h"
#include "ir/ops/region.h"
#include "reference/random_paged_step.h"

namespace camshaft::cuda::paged_step_test {
namespace {

using Update = ops::PagedUpdate;

std::vector<DType> types() {
  std::vector<DType> all = types_of_products();
  std::erase(all, DType::f32);
  return all;
}

NodeTest step_of(const RandomPagedStep& made, DType type) {
  NodeTest test(ops::Region{ops::RegionKind::chain}, made.inputs, "cuda_paged_attention",
                type == DType::bf16 ? 1.5e-2 : 3e-3);
  test.bodies = {made.body};
  test.outputs = 3;
  return test;
}

// In place, caches are read before the kernel's turn.
void in_place(NodeTest& test) {
  test.computed = {Update::in_query, Update::in_key, Update::in_value};
  test.in_place = {{Update::in_keys, 1}, {Update::in_values, 2}};
}

TEST(CudaPagedStep, RandomSteps) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType type : types())
    for (int round = 0; round < 10; ++round) {
      const PagedSizes sizes{.sequences = round % 5, .most_past = round % 2 ? 300 : 20, .size = 20};
      NodeTest test = step_of(random_paged_step(random, type, DType::f32, sizes, round % 4 == 3), type);
      if (round >= 4) in_place(test);
      test.misaligned = round == 8;
      test.check();
      if (testing::Test::HasFailure()) return;
    }
}

// Of one token a sequence, as in decoding; parts meet in a cluster, or in memory.
TEST(CudaPagedStep, Decoding) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType type : types())
    for (const int64_t size : {64, 128}) {
      if (type == DType::bf16 && size != 64) continue;  // texts take long to compile
      for (const int64_t sequences : {1, 3}) {
        const PagedSizes sizes{.sequences = sequences,
                               .most_queries = 1,
                               .most_past = 1500,
                               .block_size = 16,
                               .size = size,
                               .key_heads = 1};
        NodeTest test = step_of(random_paged_step(random, type, type, sizes, false), type);
        in_place(test);
        for (const char* variant : {"cluster=8", "cluster=0"}) {
          if (variant[8] != '0' && !gpu_features().clusters) continue;
          test.variant = variant;
          test.check();
        }
        if (testing::Test::HasFailure()) return;
      }
    }
}

// More tokens than one kernel takes, or so many of one sequence that wide tiles do; and no more than it takes.
TEST(CudaPagedStep, ManyTokens) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const int64_t sequences : {1, 20, 90}) {
    const PagedSizes sizes{
        .sequences = sequences, .most_queries = sequences == 1 ? 60 : 3, .most_past = 70, .block_size = 16, .size = 64};
    NodeTest test = step_of(random_paged_step(random, DType::f16, DType::f32, sizes, false), DType::f16);
    test.check();
    in_place(test);
    test.check();
  }
}

TEST(CudaPagedStep, SlotsBeyondTheCacheAreRefused) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  RandomPagedStep made;
  do made = random_paged_step(random, DType::f16, DType::f32, {.size = 16}, false);
  while (made.inputs[Update::in_slots].size() == 0);
  Tensor slots = made.inputs[Update::in_slots].copy();
  slots.as_mutable<int64_t>()[0] = int64_t{1} << 40;
  made.inputs[Update::in_slots] = slots;
  EXPECT_THROW(step_of(made, DType::f16).run(), Error);
}

TEST(CudaPagedStep, WhatItDoesNotTake) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  EXPECT_TRUE(
      step_of(random_paged_step(random, DType::f32, DType::f32, {.size = 16}, false), DType::f32).variants().empty());
}

}  // namespace
}  // namespace camshaft::cuda::paged_step_test
