// Operators end soon once what they are evaluated for was cancelled.
#include "base/work_scope.h"
#include "ir/ops/contract.h"
#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/select.h"
#include "reference/single_op.h"

namespace camshaft::ops::cancellation_test {
namespace {

TEST(CancelledOperators, EndSoon) {
  const Tensor matrix(DType::f32, {300, 300}), image(DType::f32, {1, 1, 300, 300}), weights(DType::f32, {1, 1, 3, 3});
  const Tensor large(DType::f32, {1000, 1000});  // so that each thread's part is worth looking at the flag
  const Tensor whole(DType::i64, {300, 300}), k = Tensor::scalar(DType::i64, 200).reshaped({1});
  Pool pool;
  pool.kernel = {9, 9};
  pool.strides = pool.dilations = {1, 1};
  pool.pads = Shape(4, Dim(4));
  const std::vector<std::pair<Op, std::vector<Tensor>>> samples = {
      {MatMul{}, {matrix, matrix}},
      {MatMul{}, {whole, whole}},
      {Conv{{1, 1}, {1, 1, 1, 1}, {1, 1}}, {image, weights}},
      {pool, {image}},
      {Reduce{ReduceKind::sum, {0, 1}, false}, {large}},
      {Reduce{ReduceKind::sum, {0}, false}, {large}},
      {Softmax{1}, {matrix}},
      {TopK{1}, {matrix, k}},
      {Unique{}, {large}},
      {Pointwise{ScalarFunction::exp}, {matrix}},
      {Transpose{{1, 0}}, {matrix}},
      {Cast{.to = DType::f64}, {matrix}},
  };
  for (const auto& [op, inputs] : samples) {
    const Cancellation cancellation;
    const WorkScope scope(cancellation);
    EXPECT_NO_THROW(run_op(op, inputs)) << op.name();
    cancellation.cancel();
    try {
      run_op(op, inputs);
      ADD_FAILURE() << op.name() << " went on";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::cancelled) << op.name();
    }
  }
}

}  // namespace
}  // namespace camshaft::ops::cancellation_test
