#include <limits>

#include "base/error.h"
#include "ir/ops/gather_matmul.h"
#include "reference/single_op.h"

namespace camshaft::ops::gather_matmul_reference_test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(GatherMatMulReference, RowsChooseTheirMatrix) {
  const Tensor x = f32({5, 2}, {1, 2, 1, 2, infinity, 1, 3, -1, 1, 1});
  const Tensor w = f32({2, 2, 3}, {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60});
  const Tensor expected = f32({5, 3}, {90, 120, 150, 9, 12, 15, 0, 0, 0, -1, 1, 3, 0, 0, 0});
  EXPECT_EQ(run_op(GatherMatMul{}, {x, i64({5}, {1, 0, -1, 0, 2}), w})[0], expected);
  EXPECT_EQ(run_op(GatherMatMul{}, {x, Tensor::of<int32_t>(DType::i32, {5}, {1, 0, -7, 0, 2}), w})[0], expected);
}

TEST(GatherMatMulReference, WithoutTermsAreZeros) {
  EXPECT_EQ(run_op(GatherMatMul{}, {f32({1, 0}, {}), i64({1}, {0}), f32({1, 0, 2}, {})})[0], f32({1, 2}, {0, 0}));
  EXPECT_EQ(run_op(GatherMatMul{}, {f32({1, 1}, {3}), i64({1}, {0}), f32({0, 1, 2}, {})})[0], f32({1, 2}, {0, 0}));
}

TEST(GatherMatMulReference, WhatDoesNotFitIsRefused) {
  const Tensor x = f32({2, 2}, {1, 2, 3, 4}), w = f32({1, 2, 1}, {1, 2}), indices = i64({2}, {0, 0});
  EXPECT_THROW(run_op(GatherMatMul{}, {x, i64({3}, {0, 0, 0}), w}), Error);
  EXPECT_THROW(run_op(GatherMatMul{}, {x, indices, f32({1, 3, 1}, {1, 2, 3})}), Error);
  EXPECT_THROW(run_op(GatherMatMul{}, {x, indices, f32({2, 1}, {1, 2})}), Error);
  EXPECT_THROW(run_op(GatherMatMul{}, {x, f32({2}, {0, 0}), w}), Error);
  EXPECT_THROW(run_op(GatherMatMul{}, {i64({2, 2}, {1, 2, 3, 4}), indices, w}), Error);
  EXPECT_THROW(run_op(GatherMatMul{}, {x, indices}), Error);
}

}  // namespace
}  // namespace camshaft::ops::gather_matmul_reference_test
