// Operators over caches in blocks on a GPU, against the reference.
#include "ir/ops/paged.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "backends/cuda/run_node.h"
#include "reference/random_paged.h"

namespace camshaft::cuda::paged_test {
namespace {

double tolerance_of(DType query) {
  return query == DType::bf16 ? 1e-2 : query == DType::f16 ? 2e-3 : 1e-5;
}

TEST(CudaPagedAttention, RandomSteps) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType type : types_of_products())
    for (int round = 0; round < 12; ++round) {
      const RandomPaged made =
          random_paged(random, type, type, {.sequences = round % 5, .size = 20});  // a text a type and cap
      NodeTest(made.op, made.inputs, "cuda_paged_attention", tolerance_of(type)).check();
      if (testing::Test::HasFailure()) return;
    }
}

TEST(CudaPagedAttention, QueriesAndCachesOfSeveralTypes) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType query : {DType::f32, DType::f16, DType::bf16})
    for (const DType cache : {DType::f32, DType::f16, DType::bf16}) {
      const RandomPaged made = random_paged(random, query, cache, {.most_past = 40});
      NodeTest(made.op, made.inputs, "cuda_paged_attention", tolerance_of(query)).check();
    }
}

TEST(CudaPagedAttention, CachesOf8Bits) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType query : {DType::f32, DType::f16, DType::bf16})
    for (const DType cache : {DType::i8, DType::f8e4m3})
      for (const int64_t size : {20, 64}) {
        const PagedSizes sizes{.sequences = 2, .most_queries = 30, .most_past = 90, .block_size = 16, .size = size};
        const RandomPaged made = random_paged(random, query, cache, sizes);
        NodeTest test(made.op, made.inputs, "cuda_paged_attention", std::max(tolerance_of(query), 5e-5));
        test.check();
        test.misaligned = true;
        test.check();
        if (testing::Test::HasFailure()) return;
      }
}

TEST(CudaPagedAttention, LongPastsOf8Bits) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType cache : {DType::i8, DType::f8e4m3}) {
    const PagedSizes sizes{.sequences = 2, .most_queries = 1, .most_past = 1500, .block_size = 16, .size = 64};
    const RandomPaged made = random_paged(random, DType::f16, cache, sizes);
    NodeTest(made.op, made.inputs, "cuda_paged_attention", tolerance_of(DType::f16)).check();
  }
}

// Heads as they are, of few and of many tokens a sequence.
TEST(CudaPagedAttention, SizesOfHeads) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType type : types_of_products())
    for (const int64_t size : {64, 80, 96, 128, 256}) {
      if (type != DType::f16 && size != 80) continue;  // texts take long to compile
      const PagedSizes sizes{.sequences = 2, .most_queries = 30, .most_past = 90, .block_size = 16, .size = size};
      const RandomPaged made = random_paged(random, type, type, sizes);
      NodeTest(made.op, made.inputs, "cuda_paged_attention", tolerance_of(type)).check();
    }
}

// Keys that are split, and merged again.
TEST(CudaPagedAttention, LongPasts) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType type : types_of_products())
    for (int round = 0; round < 2; ++round) {
      const PagedSizes sizes{
          .sequences = 2, .most_queries = round == 0 ? 1 : 60, .most_past = 1500, .block_size = 16, .size = 64};
      const RandomPaged made = random_paged(random, type, type, sizes);
      NodeTest test(made.op, made.inputs, "cuda_paged_attention", tolerance_of(type));
      test.check();
      test.computed = {ops::PagedAttention::in_query};  // tables are read before the kernel's turn
      test.check();
    }
}

// Every way of sharing out keys: among blocks that merge in a cluster, or in memory, and the warps of a block. The
// fewer tiles there are, the more parts they are cut into.
TEST(CudaPagedAttention, Variants) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType type : types_of_products()) {
    std::set<std::string> seen;
    for (const int64_t sequences : {1, 2}) {
      const PagedSizes sizes{.sequences = sequences,
                             .most_queries = sequences == 1 ? 1 : 30,
                             .most_past = 1500,
                             .block_size = 16,
                             .size = 64,
                             .key_heads = 1};
      RandomPaged made = random_paged(random, type, type, sizes);
      made.op.softcap = sequences == 1 ? 0 : 2;
      NodeTest test(made.op, made.inputs, "cuda_paged_attention", tolerance_of(type));
      test.computed = {ops::PagedAttention::in_query};
      for (const std::string& variant : test.variants()) {
        SCOPED_TRACE(variant);
        test.variant = variant.substr(variant.find('('));
        seen.insert(test.variant.substr(0, test.variant.find(',')));
        test.check();
        if (testing::Test::HasFailure()) return;
      }
    }
    EXPECT_TRUE(seen.contains("(cluster=0"));
    EXPECT_EQ(seen.contains("(cluster=8"), gpu_features().clusters);
  }
}

// Of a value's columns that are no multiple of four, each block of a cluster still has its share.
TEST(CudaPagedAttention, ClustersShareOddColumns) {
  SKIP_WITHOUT_GPU();
  if (!gpu_features().clusters) GTEST_SKIP() << "no clusters";
  Random random = test_random();
  for (const DType type : types_of_products())
    for (const int64_t size : {1, 7, 30}) {
      if (type == DType::bf16 && size != 7) continue;  // texts take long to compile
      const PagedSizes sizes{
          .sequences = 1, .most_queries = 3, .most_past = 900, .block_size = 16, .size = size, .key_heads = 1};
      const RandomPaged made = random_paged(random, type, type, sizes);
      NodeTest test(made.op, made.inputs, "cuda_paged_attention", tolerance_of(type));
      test.variant = "cluster=8";
      test.check();
      test.misaligned = true;
      test.check();
    }
}

// Tiles of several sequences, some without tokens or keys, of which tables are read before the kernel's turn.
TEST(CudaPagedAttention, EarlyTables) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType type : types_of_products())
    for (int round = 0; round < 8; ++round) {
      // A warp looks at 32 sequences at once.
      const int64_t sequences = round == 6 ? 40 : round == 7 ? 1030 : round;
      const PagedSizes sizes{.sequences = sequences,
                             .most_queries = round < 6 ? 9 : 2,
                             .most_past = round >= 6  ? 4
                                          : round % 2 ? 300
                                                      : 20,
                             .size = 20};
      const RandomPaged made = random_paged(random, type, type, sizes);
      NodeTest test(made.op, made.inputs, "cuda_paged_attention", tolerance_of(type));
      test.computed = {ops::PagedAttention::in_query};
      test.check();
      if (testing::Test::HasFailure()) return;
    }
}

TEST(CudaPagedAttention, MisalignedMemory) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  const RandomPaged made = random_paged(random, DType::f16, DType::f16, {.size = 64});
  NodeTest test(made.op, made.inputs, "cuda_paged_attention", tolerance_of(DType::f16));
  test.misaligned = true;
  test.check();
}

TEST(CudaPagedAttention, TablesThatLieAreRefused) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int round = 0; round < 8; ++round) {
    const DType type = round < 4 ? DType::f32 : DType::f16;
    RandomPaged made;
    do made = random_paged(random, type, type, {.size = 16});
    // The first sequence has tokens, and they have keys.
    while (made.inputs[3].as<int32_t>()[1] == 0 ||
           made.inputs[3].as<int32_t>()[1] + made.inputs[4].as<int32_t>()[0] <= 0);
    const int changed = round % 4;
    Tensor copy = made.inputs[changed < 2 ? 5 : changed == 2 ? 4 : 3].copy();
    constexpr int32_t far = 1 << 30;
    const int32_t values[] = {-1, static_cast<int32_t>(made.inputs[1].dims()[0]), far, far};
    copy.as_mutable<int32_t>()[changed == 3 ? 1 : 0] = values[changed];
    made.op.window = 0;  // which may leave the first block out
    made.inputs[changed < 2 ? 5 : changed == 2 ? 4 : 3] = copy;
    EXPECT_THROW(NodeTest(made.op, made.inputs, "cuda_paged_attention").run(), Error) << changed;
  }
}

TEST(CudaPagedStore, RowsAtTheirSlots) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int round = 0; round < 40; ++round) {
    const DType dtype = std::vector{DType::f32, DType::f16, DType::bf16, DType::i8}[static_cast<size_t>(round % 4)];
    const Dims cache{random.integer(0, 5), random.integer(1, 4), random.integer(0, 3), random.integer(1, 9)};
    const int64_t rows = cache[0] == 0 ? 0 : random.integer(0, 8), places = cache[0] * cache[1];
    Tensor slots(round % 3 ? DType::i64 : DType::i32, {rows});
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t slot = random.integer(-1, places - 1);
      if (slots.dtype() == DType::i64) slots.as_mutable<int64_t>()[i] = slot;
      if (slots.dtype() == DType::i32) slots.as_mutable<int32_t>()[i] = static_cast<int32_t>(slot);
    }
    NodeTest(ops::PagedStore{},
             {random_tensor(random, dtype, cache), random_tensor(random, dtype, {rows, cache[2], cache[3]}), slots},
             "cuda_paged_store")
        .check();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CudaPagedQuantize, RowsAtTheirSlots) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (int round = 0; round < 40; ++round) {
    const DType type = std::vector{DType::f32, DType::f16, DType::bf16}[static_cast<size_t>(round % 3)];
    const DType cache_type = round % 2 ? DType::i8 : DType::f8e4m3;
    const Dims cache{random.integer(0, 5), random.integer(1, 4), random.integer(0, 6), random.integer(1, 70)};
    const int64_t count = cache[0] == 0 ? 0 : random.integer(0, 8), places = cache[0] * cache[1];
    Tensor slots(DType::i64, {count}), rows = random_tensor(random, type, {count, cache[2], cache[3]});
    for (int64_t i = 0; i < count; ++i) slots.as_mutable<int64_t>()[i] = random.integer(-1, places - 1);
    const double special[] = {0, 1e-38, -3e4, std::numeric_limits<double>::infinity(), std::nan("")};
    for (int64_t i = 0; i < rows.size(); ++i)
      if (round % 5 == 0 && random.integer(0, 30) == 0)
        ops::store_elements(type, rows.mutable_data(), i, 1, 1, &special[random.integer(0, 4)]);
    NodeTest test(ops::PagedQuantize{},
                  {random_tensor(random, cache_type, cache),
                   random_tensor(random, DType::f32, {cache[0], cache[1], cache[2]}), rows, slots},
                  "cuda_paged_quantize");
    test.outputs = 2;
    test.check();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CudaPagedStore, SlotsBeyondTheCacheAreRefused) {
  SKIP_WITHOUT_GPU();
  const Tensor cache(DType::f32, {2, 3, 1}), rows(DType::f32, {1, 1}), slot = Tensor::from_ints({6});
  EXPECT_THROW(NodeTest(ops::PagedStore{}, {cache, rows, slot}, "cuda_paged_store").run(), Error);
}

}  // namespace
}  // namespace camshaft::cuda::paged_test
