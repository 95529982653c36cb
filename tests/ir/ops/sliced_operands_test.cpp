// Which operands may lie among the columns of wider rows (Traits::reads_slices).
#include <gtest/gtest.h>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/resize.h"

namespace camshaft::ops::sliced_operands_test {
namespace {

size_t sliced(const Op& op, const std::vector<size_t>& ranks) {
  return op.sliced_operands(ranks);
}

TEST(SlicedOperands, OfContractionsTheFirst) {
  Conv conv{{1, 1}, Shape(4, Dim(0)), {1, 1}};
  EXPECT_EQ(sliced(conv, {4, 4}), 0U);
  conv.channels_last = true;
  EXPECT_EQ(sliced(conv, {4, 4}), 1U);
  conv.groups = 2;
  EXPECT_EQ(sliced(conv, {4, 4}), 0U);
  EXPECT_EQ(sliced(MatMul{}, {3, 2}), 1U);
  EXPECT_EQ(sliced(MatMul{}, {3, 3}), 0U) << "a product a batch";
  EXPECT_EQ(sliced(MatMul{true}, {3, 2}), 0U);
  EXPECT_EQ(sliced(ConvTranspose{}, {4, 4}), 0U);
}

TEST(SlicedOperands, WhereRowsAreReadAlongColumns) {
  Pool pool;
  EXPECT_EQ(sliced(pool, {4}), 0U);
  pool.channels_last = true;
  EXPECT_EQ(sliced(pool, {4}), 1U);
  EXPECT_EQ(sliced(Resize{.axes = {1, 2}, .sizes = {4, 4}}, {4}), 1U);
  EXPECT_EQ(sliced(Resize{.axes = {2, 3}, .sizes = {4, 4}}, {4}), 0U);
  EXPECT_EQ(sliced(Concat{3}, {4, 4}), all_operands);
  EXPECT_EQ(sliced(Concat{1}, {4, 4}), 0U);
  EXPECT_EQ(sliced(Pointwise{}, {4, 1}), all_operands);
  EXPECT_EQ(sliced(Transpose{{1, 0}}, {2}), all_operands);
  EXPECT_EQ(sliced(Softmax{}, {2}), 0U);
}

}  // namespace
}  // namespace camshaft::ops::sliced_operands_test
