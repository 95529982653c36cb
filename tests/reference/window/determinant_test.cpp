#include <gtest/gtest.h>

#include <cmath>

#include "ir/ops/window_ops.h"
#include "reference/single_op.h"

namespace camshaft::ops::determinant_test {
namespace {

TEST(Determinant, OfABatchWithPivots) {
  const Tensor x = f32({2, 3, 3}, {0, 2, 1, 1, 0, 0, 3, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 4});
  EXPECT_EQ(run_op(Determinant{}, {x})[0], f32({2}, {-2, 24}));
}

TEST(Determinant, SingularEmptyAndNaN) {
  EXPECT_EQ(run_op(Determinant{}, {f32({2, 2}, {1, 2, 2, 4})})[0].to_doubles(), std::vector<double>{0});
  EXPECT_EQ(run_op(Determinant{}, {f32({0, 2, 2}, {})})[0].dims(), (Dims{0}));
  EXPECT_EQ(run_op(Determinant{}, {f32({0, 0}, {})})[0], f32({}, {1}));
  EXPECT_TRUE(std::isnan(run_op(Determinant{}, {f32({2, 2}, {NAN, 1, 0, 1})})[0].to_doubles()[0]));
}

TEST(Determinant, RefusesWhatIsNoSquare) {
  EXPECT_THROW(run_op(Determinant{}, {f32({2, 3}, {1, 2, 3, 4, 5, 6})}), Error);
  EXPECT_THROW(run_op(Determinant{}, {f32({2}, {1, 2})}), Error);
  EXPECT_THROW(run_op(Determinant{}, {Tensor::from_ints({1})}), Error);
}

}  // namespace
}  // namespace camshaft::ops::determinant_test
