#include "ir/ops/rotary_embedding.h"

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/attention/rotary_embedding.h"
#include "backends/cpu/run_node.h"
#include "reference/random_rotary.h"

namespace camshaft::cpu::rotary_embedding_test {
namespace {

TEST(RotaryEmbedding, RandomLayouts) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      const RandomRotary made = random_rotary(random, DType::f32, DType::f32, round % 4 == 0);
      NodeTest(made.op, made.inputs, {}, "rotary_embedding", 1e-6).check(1 + round % 3);
    }
  });
}

TEST(RotaryEmbedding, ManyRows) {
  Random random = test_random();
  const Tensor x = random_tensor(random, DType::f32, {2, 300, 3 * 64});
  ops::RotaryEmbedding op;
  op.rotated = 64;
  op.axes = {2, 3, 300};
  op.x = {0, 300 * 3 * 64, 64, 3 * 64};
  op.cosine = op.sine = {0, 0, 0, 32, 0, 1};
  op.shape = {2, 3, 300, 64};
  const std::vector<Tensor> inputs{x, random_tensor(random, DType::f32, {300, 32}),
                                   random_tensor(random, DType::f32, {300, 32})};
  for (const int threads : {1, 2, 5}) NodeTest(op, inputs, {}, "rotary_embedding", 1e-6).check(threads);
}

// Tables longer than what is kept in cache for the heads that share them: in whole blocks of rows, and with a rest.
TEST(RotaryEmbedding, LongTablesForManyHeads) {
  Random random = test_random();
  for (const int64_t length : {31, 32, 64, 257}) {
    const int64_t batches = random.integer(1, 2), heads = random.integer(2, 5),
                  rotated = random.integer(0, 1) ? 64 : 62;
    const bool one_table = random.integer(0, 1) == 1;
    ops::RotaryEmbedding op;
    op.rotated = rotated;
    op.interleaved = random.integer(0, 1) == 1;
    op.axes = {batches, heads, length};
    op.x = {0, heads * length * 64, length * 64, 64};
    op.cosine = op.sine = {0, one_table ? 0 : length * 32, 0, 32, 0, 1};
    op.shape = {batches, heads, length, 64};
    const Dims table{one_table ? 1 : batches, length, 32};
    const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {batches, heads, length, 64}),
                                     random_tensor(random, DType::f32, table),
                                     random_tensor(random, DType::f32, table)};
    for (const int threads : {1, 3}) NodeTest(op, inputs, {}, "rotary_embedding", 1e-6).check(threads);
  }
}

// A result that is a part of wider rows: what is between its rows stays.
TEST(RotaryEmbedding, WritesSlices) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6}, cosine{0}, sine{1};
  std::vector<float> y(3 * 5, 9);
  Rotary rotary;
  rotary.width = rotary.rotated = 2;
  rotary.rows = {{3}, {{2}, {0}, {0}, {5}}};
  rotary.prepare();
  ThreadPool pool(2);
  for_each_target([&] {
    rotary.run(pool, x.data(), cosine.data(), sine.data(), y.data());
    EXPECT_EQ(y, (std::vector<float>{-2, 1, 9, 9, 9, -4, 3, 9, 9, 9, -6, 5, 9, 9, 9}));
  });
}

}  // namespace
}  // namespace camshaft::cpu::rotary_embedding_test
