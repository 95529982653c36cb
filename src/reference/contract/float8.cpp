// The reference evaluation of float8_matmul and float8_conv: those of f32.
#include "ir/ops/float8.h"

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "reference/evaluate.h"

namespace camshaft::ops {

namespace {

std::vector<Tensor> evaluate_in_f32(const Op& op, const EvalContext& context) {
  const auto wide = [&](size_t i) {
    const Tensor& x = context.input(i);
    const std::vector<Tensor> inputs{x};
    const std::vector<TensorType> types{{DType::f32, Shape(x.dims().begin(), x.dims().end())}};
    return camshaft::evaluate(Cast{DType::f32}, {inputs, types, context.bindings, context.bodies, context.pool,
                                                 context.cancellation})[0];
  };
  const std::vector<Tensor> operands{wide(0), wide(1)};
  return camshaft::evaluate(
      op, {operands, context.output_types, context.bindings, context.bodies, context.pool, context.cancellation});
}

}  // namespace

std::vector<Tensor> Float8MatMul::evaluate(const EvalContext& context) const {
  return evaluate_in_f32(MatMul{}, context);
}

std::vector<Tensor> Float8Conv::evaluate(const EvalContext& context) const {
  return evaluate_in_f32(Conv{strides, pads, dilations, groups, channels_last}, context);
}

}  // namespace camshaft::ops
