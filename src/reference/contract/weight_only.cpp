// The reference evaluation of weight_only_matmul and read_bytes_as.
#include "ir/ops/weight_only.h"

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/quantized.h"
#include "ir/widened.h"

namespace camshaft::ops {

std::vector<Tensor> WeightOnlyMatMul::evaluate(const EvalContext& context) const {
  std::vector<Tensor> parameters{context.input(1), context.input(2)};
  if (context.has(3)) parameters.push_back(context.input(3));
  const Dims& dims = parameters[0].dims();
  const std::vector<TensorType> types{{DType::f32, Shape(dims.begin(), dims.end())}};
  const std::vector<Tensor> weights = Dequantize{DType::f32, transposed ? 1 : 0, block}.evaluate(
      {parameters, types, context.bindings, context.bodies, context.pool, context.cancellation});
  // One row is a matrix, too. The weights are no number of x's type: narrow floats are multiplied as f32.
  Tensor x = context.input(0);
  if (rounded_block != 0)
    x = RoundBlocks{rounded_block}.evaluate(
        {{x}, {}, context.bindings, context.bodies, context.pool, context.cancellation})[0];
  const bool is_row = x.dims().size() == 1;
  const Tensor rows = is_row ? x.reshaped({1, x.size()}) : x;
  const std::vector<Tensor> operands{x.dtype() == DType::f32 ? rows : widened(rows), weights[0]};
  std::vector<TensorType> result = context.output_types;
  result[0].dtype = DType::f32;
  if (is_row) result[0].shape.insert(result[0].shape.begin(), Dim(1));
  std::vector<Tensor> product = MatMul{false, transposed}.evaluate(
      {operands, result, context.bindings, context.bodies, context.pool, context.cancellation});
  if (x.dtype() != DType::f32)
    product = Cast{.to = x.dtype()}.evaluate(
        {product, context.output_types, context.bindings, context.bodies, context.pool, context.cancellation});
  return {is_row ? product[0].reshaped({product[0].size()}) : product[0]};
}

std::vector<Tensor> ReadBytesAs::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  Dims dims = x.dims();
  dims.back() = dims.back() * bit_width(x.dtype()) / bit_width(to);
  return {Tensor(to, std::move(dims), x.span(), x.owner())};
}

}  // namespace camshaft::ops
