#include "ir/ops/rotary_embedding.h"

#include "reference/random_rotary.h"
#include "reference/single_op.h"

namespace camshaft::rotary_embedding_test {
namespace {

// One row of four elements, and angles whose cosines and sines are told apart.
ops::RotaryEmbedding plain() {
  return ops::dense_rotary_embedding({1, 4}, {2}, {1, 2}, 4, false);
}
const std::vector<Tensor> operands{f32({1, 4}, {1, 2, 3, 4}), f32({2}, {2, 10}), f32({1, 2}, {1, 100})};

void expect_near(const Tensor& got, const std::vector<double>& wanted) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 1e-5) << "element " << i;
}

TEST(RotaryEmbedding, HalvesNeighboursAndTheRest) {
  expect_near(run_op(plain(), operands)[0], {2 - 3, 20 - 400, 6 + 1, 40 + 200});
  ops::RotaryEmbedding op = plain();
  op.interleaved = true;
  expect_near(run_op(op, operands)[0], {2 - 2, 4 + 1, 30 - 400, 40 + 300});
  op.rotated = 2;
  op.whole_tables = false;
  expect_near(run_op(op, operands)[0], {2 - 2, 4 + 1, 3, 4});
  op.rotated = 0;
  expect_near(run_op(op, operands)[0], {1, 2, 3, 4});
}

TEST(RotaryEmbedding, TablesOfOneAngleAnElement) {
  ops::RotaryEmbedding op = plain();
  op.cosine = {0, 0, 2, 1};
  op.sine = {1, 0, 0, 1};
  const Tensor sines = f32({3}, {7, 1, 100});
  expect_near(run_op(op, {operands[0], f32({4}, {2, 10, 3, 20}), sines})[0], {2 - 3, 20 - 400, 9 + 1, 80 + 200});
  op.interleaved = true;
  op.cosine = {0, 0, 1, 2};
  expect_near(run_op(op, {operands[0], f32({4}, {2, 10, 3, 20}), sines})[0], {2 - 2, 20 + 1, 9 - 400, 80 + 300});
}

TEST(RotaryEmbedding, HeadsSideBySide) {
  // Two positions of two heads, read out of rows that hold both; each position has its angle.
  ops::RotaryEmbedding op;
  op.rotated = 2;
  op.axes = {2, 2};
  op.x = {0, 2, 4};
  op.cosine = op.sine = {0, 0, 1, 0, 1};
  op.shape = {2, 2, 2};
  const Tensor x = f32({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_near(run_op(op, {x, f32({2}, {1, 0}), f32({2}, {0, 1})})[0], {1, 2, -6, 5, 3, 4, -8, 7});
}

TEST(RotaryEmbedding, SymbolicSizes) {
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const ops::RotaryEmbedding op = ops::dense_rotary_embedding({2, n, 2}, {m, 1}, {n, 1}, 2, false);
  const Tensor x = f32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), sines = f32({2, 1}, {0, 1});
  expect_near(run_op(op, {x, f32({2, 1}, {1, 0}), sines}, {{"n", 2}, {"m", 2}})[0], {1, 2, -4, 3, 5, 6, -8, 7});
  expect_near(run_op(op, {x, f32({1, 1}, {1}), sines}, {{"n", 2}, {"m", 1}})[0], {1, 2, -1, 7, 5, 6, -1, 15});
  // Tables that are longer than the rows, as other broadcasts.
  const auto error = [&](const ops::RotaryEmbedding& of, Dims cosines, Dims rows, int64_t m_is) {
    const Tensor x_is(DType::f32, {2, rows[0], 2}), sines_are(DType::f32, rows);
    return error_of([&] { run_op(of, {x_is, Tensor(DType::f32, cosines), sines_are}, {{"n", rows[0]}, {"m", m_is}}); });
  };
  const std::string wanted = "the cosines cannot be broadcast to the rows of a rotary embedding: they have 3 elements";
  EXPECT_NE(error(op, {3, 1}, {2, 1}, 3).find(wanted + ", of which 2 are read"), std::string::npos);
  EXPECT_NE(error(op, {3, 1}, {1, 1}, 3).find(wanted + ", of which 1 are read"), std::string::npos);
  const ops::RotaryEmbedding two = ops::dense_rotary_embedding({2, n, 2}, {m, n, 1}, {n, 1}, 2, false);
  EXPECT_NE(error(two, {3, 1, 1}, {1, 1}, 3).find(wanted + ", of which 2 are read"), std::string::npos);
}

TEST(RotaryEmbedding, StaysInsideItsTensors) {
  const auto error = [&](auto change) {
    ops::RotaryEmbedding op = plain();
    change(op);
    return error_of([&] { run_op(op, operands); });
  };
  EXPECT_NE(error([](auto& op) { op.x = {1, 4}; }).find("the operand beyond its 4 elements"), std::string::npos);
  EXPECT_NE(error([](auto& op) { op.cosine = {1, 0, 0, 1}; }).find("the cosines beyond its 2"), std::string::npos);
  EXPECT_NE(error([](auto& op) { op.sine = {0, 0, 1, 1}; }).find("the sines beyond its 2"), std::string::npos);
  EXPECT_NE(error([](auto& op) { op.sine = {0, 0, 0, 2}; }).find("strides of 0 and 2"), std::string::npos);
  EXPECT_NE(error([](auto& op) { op.sine = {0, 0, 1}; }).find("2 strides, 3 are needed"), std::string::npos);
  EXPECT_NE(error([](auto& op) { op.rotated = 3; }).find("in pairs"), std::string::npos);
  EXPECT_NE(error([](auto& op) { op.rotated = 6; }).find("6 of 4 elements"), std::string::npos);
  EXPECT_NE(error([](auto& op) { op.shape = {2, 4}; }).find("makes 1 rows, the result has 2"), std::string::npos);
  EXPECT_NE(error([](auto& op) {
              op.axes = {2};
              op.shape = {2, 4};
              op.x = {0, -1};
            }).find("negative stride"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              ops::dense_rotary_embedding({3, 4}, {2, 2}, {2}, 4, false);
            }).find("cannot be broadcast"),
            std::string::npos);
}

TEST(RotaryEmbedding, NarrowTypesAndEmptyTensors) {
  Random random = test_random();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64})
    for (int round = 0; round < 20; ++round) {
      const RandomRotary made = random_rotary(random, dtype, round % 2 ? dtype : DType::f32);
      EXPECT_EQ(run_op(made.op, made.inputs)[0].dtype(), dtype);
    }
}

}  // namespace
}  // namespace camshaft::rotary_embedding_test
