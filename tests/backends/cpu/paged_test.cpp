#include "ir/ops/paged.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/each_target.h"
#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "reference/random_paged.h"

namespace camshaft::cpu::paged_test {
namespace {

TEST(PagedAttention, RandomSteps) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const RandomPaged made = random_paged(random, DType::f32, DType::f32, {.sequences = round % 5});
      NodeTest(made.op, made.inputs, {}, "paged_attention", 4e-6).check(1 + round % 3);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST(PagedAttention, NarrowQueriesAndCaches) {
  Random random = test_random();
  for_each_target([&] {
    for (const DType query : {DType::f32, DType::f16, DType::bf16})
      for (const DType cache : {DType::f32, DType::f16, DType::bf16})
        for (int round = 0; round < 6; ++round) {
          const RandomPaged made = random_paged(random, query, cache, {});
          NodeTest test(made.op, made.inputs, {}, "paged_attention", 4e-6);
          test.rounds = true;
          test.check(2);
          if (testing::Test::HasFailure()) return;
        }
  });
}

TEST(PagedAttention, CachesOf8Bits) {
  Random random = test_random();
  for_each_target([&] {
    for (const DType query : {DType::f32, DType::f16, DType::bf16})
      for (const DType cache : {DType::i8, DType::f8e4m3})
        for (int round = 0; round < 20; ++round) {
          const RandomPaged made = random_paged(random, query, cache, {.most_size = round % 2 ? 40 : 130});
          // Scores of codes without scales are some hundreds, of which exponentials keep fewer digits.
          NodeTest test(made.op, made.inputs, {}, "paged_attention", 5e-5);
          test.rounds = true;
          test.check(1 + round % 3);
          if (testing::Test::HasFailure()) return;
        }
  });
}

// Every code is the number that it is, whether a vector or a single element reads it; NaN among them.
TEST(PagedAttention, CodesOf8Bits) {
  for_each_target([&] {
    for (const DType type : {DType::i8, DType::f8e4m3})
      for (const int64_t size : {int64_t{256}, int64_t{1}}) {
        const Tensor keys(type, {256 / size, 1, 1, size});
        Tensor values(type, {256 / size, 1, 1, size});
        for (int i = 0; i < 256; ++i) values.mutable_data()[i] = static_cast<std::byte>(i);
        for (int64_t block = 0; block < 256 / size; ++block) {
          const std::vector<Tensor> inputs{Tensor(DType::f32, {1, size}),
                                           keys,
                                           values,
                                           Tensor::of<int32_t>(DType::i32, {2}, {0, 1}),
                                           Tensor::of<int32_t>(DType::i32, {1}, {0}),
                                           Tensor::of<int32_t>(DType::i32, {1, 1}, {static_cast<int32_t>(block)})};
          NodeTest(ops::PagedAttention{}, inputs, {}, "paged_attention").check(1);
        }
      }
  });
}

// A scale that is NaN reaches the tokens that see its row, and no others.
TEST(PagedAttention, ScalesThatAreNoNumbers) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 24; ++round) {
      RandomPaged made;
      do made = random_paged(random, DType::f32, DType::i8, {.most_queries = 1, .block_size = 16});
      while (made.inputs.size() <= ops::PagedAttention::in_key_scales);
      const size_t changed = ops::PagedAttention::in_key_scales + static_cast<size_t>(round % 2);
      if (!made.inputs[changed].defined() || made.inputs[changed].size() == 0) continue;
      made.inputs[changed] = made.inputs[changed].copy();
      for (int i = 0; i < 3; ++i)
        made.inputs[changed].as_mutable<float>()[random.integer(0, made.inputs[changed].size() - 1)] = std::nanf("");
      NodeTest(made.op, made.inputs, {}, "paged_attention", 1e-5).check(2);
    }
  });
}

// Several chunks of keys, blocks of rows, and parts of one token's keys.
TEST(PagedAttention, LongSequences) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 6; ++round) {
      const PagedSizes sizes{
          .sequences = 2, .most_queries = round % 2 ? 100 : 2, .most_past = 5000, .most_size = 70, .block_size = 16};
      const DType caches[] = {DType::f32, DType::f16, DType::f16, DType::i8, DType::i8, DType::f8e4m3};
      const RandomPaged made = random_paged(random, DType::f32, caches[round], sizes);
      NodeTest(made.op, made.inputs, {}, "paged_attention", round < 3 ? 1e-5 : 5e-5).check(2);
      if (testing::Test::HasFailure()) return;
    }
  });
}

// What others compute beside it, and which of its own tokens are in its step, leave a token's result as it is, bit by
// bit: few rows and many, one part of keys and several, windows that begin anywhere.
TEST(PagedAttention, ATokenHasTheSameBitsInAnyStep) {
  Random random = test_random();
  using Op = ops::PagedAttention;
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const DType cache = std::vector{DType::f32, DType::f16, DType::i8}[static_cast<size_t>(round % 3)];
      RandomPaged both;
      do
        both = random_paged(random, DType::f32, cache,
                            {.sequences = 2,
                             .most_queries = round % 4 ? 20 : 90,
                             .most_past = round % 2 ? 300 : 5000,
                             .most_size = 70,
                             .block_size = 16});
      while (both.inputs[Op::in_starts].as<int32_t>()[1] == 0);
      if (!both.op.causal) continue;  // where tokens see those behind them
      const Tensor together = NodeTest(both.op, both.inputs, {}, "paged_attention").run(2)[0];
      const int64_t tokens = both.inputs[Op::in_starts].as<int32_t>()[1];
      const int64_t first = random.integer(0, tokens - 1), end = random.integer(first + 1, tokens);
      RandomPaged part = both;
      const int64_t width = both.inputs[Op::in_table].dims()[1], more = random.integer(0, 80);
      part.inputs[Op::in_query] = Tensor(DType::f32, {end - first, both.inputs[Op::in_query].dims()[1]});
      const size_t row = part.inputs[Op::in_query].bytes() / static_cast<size_t>(end - first);
      std::copy_n(both.inputs[Op::in_query].data() + static_cast<size_t>(first) * row,
                  part.inputs[Op::in_query].bytes(), part.inputs[Op::in_query].mutable_data());
      part.inputs[Op::in_starts] = Tensor::of<int32_t>(DType::i32, {2}, {0, static_cast<int32_t>(end - first)});
      part.inputs[Op::in_past] = Tensor::of<int32_t>(
          DType::i32, {1}, {both.inputs[Op::in_past].as<int32_t>()[0] + static_cast<int32_t>(first)});
      part.inputs[Op::in_table] = Tensor(DType::i32, {1, width + more});
      std::copy_n(both.inputs[Op::in_table].as<int32_t>(), width, part.inputs[Op::in_table].as_mutable<int32_t>());
      const Tensor alone = NodeTest(part.op, part.inputs, {}, "paged_attention").run(1)[0];
      const size_t result_row = alone.bytes() / static_cast<size_t>(end - first);
      EXPECT_TRUE(std::equal(alone.data(), alone.data() + alone.bytes(),
                             together.data() + static_cast<size_t>(first) * result_row))
          << "round " << round << ", tokens " << first << " to " << end << " of " << tokens;
    }
  });
}

TEST(PagedAttention, TablesThatLieAreRefused) {
  Random random = test_random();
  for (int round = 0; round < 30; ++round) {
    RandomPaged made;
    do made = random_paged(random, DType::f32, DType::f32, {});
    while (made.inputs[3].as<int32_t>()[1] == 0 || made.op.window > 0 ||
           made.inputs[3].as<int32_t>()[1] + made.inputs[4].as<int32_t>()[0] <= 0);  // some token reads the first block
    const int changed = round % 4;
    Tensor& table = made.inputs[changed < 2 ? 5 : changed == 2 ? 4 : 3];
    Tensor copy = table.copy();
    constexpr int32_t far = 1 << 30;
    const int32_t values[] = {-1, static_cast<int32_t>(made.inputs[1].dims()[0]), far, far};
    copy.as_mutable<int32_t>()[changed == 3 ? 1 : 0] = values[changed];
    table = copy;
    EXPECT_THROW(NodeTest(made.op, made.inputs, {}, "paged_attention").run(2), Error) << changed;
  }
}

TEST(PagedStore, RowsAtTheirSlots) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const DType dtype = std::vector{DType::f32, DType::f16, DType::i8, DType::f64}[static_cast<size_t>(round % 4)];
    const Dims cache{random.integer(0, 5), random.integer(1, 4), random.integer(0, 3), random.integer(1, 9)};
    const int64_t rows = cache[0] == 0 ? 0 : random.integer(0, 8), places = cache[0] * cache[1];
    Tensor slots(round % 3 ? DType::i64 : DType::i32, {rows});
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t slot = random.integer(-1, places - 1);
      if (slots.dtype() == DType::i64) slots.as_mutable<int64_t>()[i] = slot;
      if (slots.dtype() == DType::i32) slots.as_mutable<int32_t>()[i] = static_cast<int32_t>(slot);
    }
    NodeTest test(
        ops::PagedStore{},
        {random_tensor(random, dtype, cache), random_tensor(random, dtype, {rows, cache[2], cache[3]}), slots}, {},
        "paged_store");
    test.check(1 + round % 3);
    test.over = 0;
    test.check(1);
    if (testing::Test::HasFailure()) return;
  }
}

// Codes and scales are the reference's, bit by bit: of zeros, of what is tiny, infinite and no number, too.
TEST(PagedQuantize, RowsAtTheirSlots) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 90; ++round) {
      const DType type = std::vector{DType::f32, DType::f16, DType::bf16}[static_cast<size_t>(round % 3)];
      const DType cache_type = round % 2 ? DType::i8 : DType::f8e4m3;
      const Dims cache{random.integer(0, 5), random.integer(1, 4), random.integer(0, 3), random.integer(1, 70)};
      const int64_t count = cache[0] == 0 ? 0 : random.integer(0, 8), places = cache[0] * cache[1];
      Tensor slots(round % 4 ? DType::i64 : DType::i32, {count});
      for (int64_t i = 0; i < count; ++i) {
        const int64_t slot = random.integer(-1, places - 1);
        if (slots.dtype() == DType::i64) slots.as_mutable<int64_t>()[i] = slot;
        if (slots.dtype() == DType::i32) slots.as_mutable<int32_t>()[i] = static_cast<int32_t>(slot);
      }
      Tensor rows = random_tensor(random, type, {count, cache[2], cache[3]});
      const double special[] = {0, 1e-38, -3e4, std::numeric_limits<double>::infinity(), std::nan("")};
      for (int64_t i = 0; i < rows.size(); ++i)
        if (round % 5 == 0 && random.integer(0, 30) == 0)
          ops::store_elements(type, rows.mutable_data(), i, 1, 1, &special[random.integer(0, 4)]);
      if (round % 7 == 0)  // a head of zeros
        std::fill_n(rows.mutable_data(), std::min<size_t>(rows.bytes(), static_cast<size_t>(cache[3]) * 2),
                    std::byte());
      NodeTest test(ops::PagedQuantize{},
                    {random_tensor(random, cache_type, cache),
                     random_tensor(random, DType::f32, {cache[0], cache[1], cache[2]}), rows, slots},
                    {}, "paged_quantize");
      test.outputs = 2;
      test.check(1 + round % 3);
      test.over = 0;
      test.check(1);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST(PagedQuantize, SlotsBeyondTheCacheAreRefused) {
  const Tensor cache(DType::i8, {2, 3, 1, 4}), scales(DType::f32, {2, 3, 1}), rows(DType::f32, {1, 1, 4});
  NodeTest test(ops::PagedQuantize{}, {cache, scales, rows, Tensor::from_ints({6})}, {}, "paged_quantize");
  test.outputs = 2;
  EXPECT_THROW(test.run(1), Error);
}

TEST(PagedStore, SlotsBeyondTheCacheAreRefused) {
  const Tensor cache(DType::f32, {2, 3, 1}), rows(DType::f32, {1, 1}), slot = Tensor::from_ints({6});
  EXPECT_THROW(NodeTest(ops::PagedStore{}, {cache, rows, slot}, {}, "paged_store").run(1), Error);
}

}  // namespace
}  // namespace camshaft::cpu::paged_test
