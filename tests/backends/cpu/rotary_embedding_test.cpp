#include "ir/ops/rotary_embedding.h"

#include "backends/cpu/each_target.h"
#include "backends/cpu/kernels/attention/rotary_embedding.h"
#include "backends/cpu/run_node.h"
#include "base/error.h"
#include "ir/ops/move.h"
#include "ir/ops/region.h"
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

// A chain of the gathers that make some of its tables, by rows that are those of the access or parts of them.
NodeTest behind_gathers(Random& random, int round) {
  const RandomRotary made = random_rotary(random, DType::f32, DType::f32);
  Graph body;
  std::vector<Tensor> operands;
  const auto add = [&](const Tensor& t) {
    operands.push_back(t);
    return body.add_input("x" + std::to_string(operands.size()), {t.dtype(), Shape(t.dims().begin(), t.dims().end())});
  };
  std::vector<ValueId> inputs{add(made.inputs[0])};
  for (const size_t i : {1, 2}) {
    const Dims& dims = made.inputs[i].dims();
    if (i == 1 + static_cast<size_t>(round % 3)) {  // in two of three rounds one is no result of a gather
      inputs.push_back(add(made.inputs[i]));
      continue;
    }
    const int64_t axes = random.integer(0, 3), rows = random.integer(1, 5);
    const Dims index(dims.begin(), dims.begin() + axes);
    Dims table{rows};
    table.insert(table.end(), dims.begin() + axes, dims.end());
    Tensor ids(DType::i64, index);
    for (int64_t k = 0; k < ids.size(); ++k) ids.as_mutable<int64_t>()[k] = random.integer(-rows, rows - 1);
    const ValueId from = add(random_tensor(random, DType::f32, table));
    ValueId gathered = body.add(ops::Gather{0}, {from, add(ids)}, "g" + std::to_string(i));
    if (random.integer(0, 1))
      gathered = body.add(ops::Reshape{{Dim(element_count(dims))}}, {gathered}, "r" + std::to_string(i));
    inputs.push_back(gathered);
  }
  body.add_output("y", body.add(made.op, inputs, "y"));
  NodeTest test(ops::Region{ops::RegionKind::chain}, operands, {}, "rotary_embedding", 1e-6);
  test.bodies = {std::move(body)};
  return test;
}

TEST(RotaryEmbedding, BehindGathersOfItsTables) {
  Random random = test_random();
  for_each_target([&] {
    for (int round = 0; round < 150; ++round) {
      behind_gathers(random, round).check(1 + round % 3);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST(RotaryEmbedding, IdsOutsideOfATableAreRefused) {
  Random random = test_random();
  for (int round = 0, refused = 0; refused < 10; ++round) {
    ASSERT_LT(round, 1000);
    NodeTest test = behind_gathers(random, 0);  // x, cosines, a table of sines and ids
    if (test.inputs[0].size() == 0 || test.inputs[3].size() == 0) continue;
    ++refused;
    Tensor ids(DType::i64, test.inputs[3].dims());
    std::copy_n(test.inputs[3].data(), ids.bytes(), ids.mutable_data());
    const int64_t rows = test.inputs[2].dims()[0];
    ids.as_mutable<int64_t>()[random.integer(0, ids.size() - 1)] = random.integer(0, 1) ? rows : -rows - 1;
    test.inputs[3] = ids;
    EXPECT_THROW(test.run(2), Error);
  }
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
