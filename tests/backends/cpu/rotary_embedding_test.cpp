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
