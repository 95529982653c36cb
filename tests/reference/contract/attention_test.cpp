#include "ir/ops/attention.h"

#include <cmath>
#include <limits>

#include "reference/single_op.h"

namespace camshaft::attention_test {
namespace {

// One head of two queries and three keys of one element each, one behind the other.
ops::Attention plain() {
  ops::Attention op;
  op.outer = {1};
  op.queries = {2};
  op.keys = {3};
  op.query = {0, 0, 1, 1};
  op.key = op.value = {0, 0, 1, 1};
  op.result = {0, 2, 1, 1};
  op.shape = {2};
  return op;
}

void expect_near(const Tensor& got, const std::vector<double>& wanted) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 1e-5) << "element " << i;
}

const std::vector<Tensor> operands{f32({2}, {0, 1}), f32({3}, {0, 0, 1}), f32({3}, {1, 2, 6})};
const double e = 2.718281828459045;

TEST(Attention, WeighsValues) {
  expect_near(run_op(plain(), operands)[0], {3, (1 + 2 + 6 * e) / (2 + e)});
}

TEST(Attention, CappedScores) {
  ops::Attention op = plain();
  op.scale = 3;
  op.softcap = 2;
  const double capped = std::exp(2 * std::tanh(1.5));
  expect_near(run_op(op, operands)[0], {3, (1 + 2 + 6 * capped) / (2 + capped)});
  op.softcap = -1;
  EXPECT_THROW(run_op(op, operands), Error);
}

TEST(Attention, ScaleAndMasks) {
  ops::Attention op = plain();
  op.scale = 2;
  op.masks = {0, 0, 0, 1};
  op.masked = {0};
  std::vector<Tensor> inputs = operands;
  inputs.push_back(f32({3}, {-std::numeric_limits<float>::infinity(), 0, 1}));
  expect_near(run_op(op, inputs)[0], {(2 + 6 * e) / (1 + e), (2 + 6 * e * e * e) / (1 + e * e * e)});

  op.masks = {0, 0, 3, 1};
  op.masked = {-std::numeric_limits<double>::infinity()};
  inputs[3] = Tensor::of<uint8_t>(DType::boolean, {6}, {1, 1, 0, 0, 0, 0});
  op.zero_undefined = true;
  expect_near(run_op(op, inputs)[0], {1.5, 0});
}

TEST(Attention, HeadsSideBySide) {
  // [queries and keys 2, heads 2]: head h of row r is element 2r + h.
  ops::Attention op;
  op.outer = {2};
  op.queries = op.keys = {2};
  op.query = op.key = op.value = op.result = {0, 1, 2, 1};
  op.shape = {2, 2};
  op.scale = 0;
  expect_near(run_op(op, {f32({4}, {1, 2, 3, 4}), f32({4}, {1, 2, 3, 4}), f32({4}, {1, 2, 3, 4})})[0], {2, 3, 2, 3});
}

TEST(Attention, StaysInsideItsTensors) {
  ops::Attention op = plain();
  op.key = {1, 0, 1, 1};
  EXPECT_NE(error_of([&] { run_op(op, operands); }).find("the key beyond its 3 elements"), std::string::npos);
  op = plain();
  op.result = {0, 2, 0, 1};
  EXPECT_NE(error_of([&] { run_op(op, operands); }).find("each element of its result once"), std::string::npos);
  op = plain();
  op.keys = {4};
  op.key = op.value = {0, 0, 0, 1};
  EXPECT_NE(error_of([&] { run_op(op, operands); }).find("more keys than elements"), std::string::npos);
  op = plain();
  op.query = {0, 0, -1, 1};
  EXPECT_NE(error_of([&] { run_op(op, operands); }).find("negative stride"), std::string::npos);
  op = plain();
  op.shape = {3};
  EXPECT_NE(error_of([&] { run_op(op, operands); }).find("writes 2 elements into a result of 3"), std::string::npos);
  op = plain();
  op.query = {0, 1};
  EXPECT_NE(error_of([&] { run_op(op, operands); }).find("strides, 3 are needed"), std::string::npos);
}

TEST(Attention, NothingToDo) {
  ops::Attention op = plain();
  op.keys = {0};
  expect_near(run_op(op, {operands[0], f32({0}, {}), f32({0}, {})})[0], {0, 0});
  op = plain();
  op.queries = {0};
  op.shape = {0};
  expect_near(run_op(op, {f32({0}, {}), operands[1], operands[2]})[0], {});
}

}  // namespace
}  // namespace camshaft::attention_test
