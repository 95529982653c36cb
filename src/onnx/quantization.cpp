#include "onnx/quantization.h"

#include <fmt/format.h>

#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"

namespace camshaft::onnx {

using F = ScalarFunction;

namespace {

Values operands(ConvertContext& c, ValueId x, ValueId scale, ValueId zero_point) {
  Values all{x, parameter_of(c, scale)};
  if (zero_point != no_value) all.push_back(parameter_of(c, zero_point));
  return all;
}

}  // namespace

ValueId parameter_of(ConvertContext& c, ValueId parameter) {
  if (parameter == no_value || c.rank(parameter) != 1 || c.dim(parameter, 0) != Dim(1)) return parameter;
  return c.reshape(parameter, {});
}

int64_t block_size(ConvertContext& c, ValueId scale, ValueId x, int64_t axis, int64_t block) {
  if (block != 0 || c.rank(scale) < 2 || c.rank(scale) != c.rank(x)) return block;
  const Dim &blocks = c.dim(scale, axis), &size = c.dim(x, axis);
  if (blocks == size || blocks == Dim(1)) return 0;
  const auto count = blocks.as_constant(), elements = size.as_constant();
  if (!count || !elements || *count <= 0 || *elements % *count != 0)
    c.invalid(
        fmt::format("block_size is missing: {} blocks for {} elements along axis {}", blocks.str(), size.str(), axis));
  return *elements / *count;
}

ValueId dequantize(ConvertContext& c, ValueId x, ValueId scale, ValueId zero_point, DType to, int64_t axis,
                   int64_t block) {
  return c.add(ops::Dequantize{to, axis, block}, operands(c, x, scale, zero_point));
}

ValueId quantize(ConvertContext& c, size_t i, const ops::Quantize& op, ValueId x, ValueId scale, ValueId zero_point) {
  return c.result_at(i, op, operands(c, x, scale, zero_point));
}

ValueId round_steps(ConvertContext& c, size_t i, ValueId steps, ValueId zero_point, DType to) {
  if (zero_point != no_value && c.rank(zero_point) > 1 && c.rank(zero_point) < c.rank(steps)) {
    Shape shape(c.shape(steps).size() - c.shape(zero_point).size(), Dim(1));
    shape.insert(shape.end(), c.shape(zero_point).begin(), c.shape(zero_point).end());
    zero_point = c.reshape(zero_point, std::move(shape));
  }
  return quantize(c, i, {.dtype = to}, steps, c.scalar(DType::f32, 1), zero_point);
}

DynamicQuantization quantize_dynamically(ConvertContext& c, ValueId x) {
  const Values out = c.add_all(ops::DynamicQuantize{}, {x}, 3);
  return {out[0], out[1], out[2]};
}

ValueId shifted(ConvertContext& c, ValueId x, ValueId zero_point) {
  const ValueId wide = c.cast(x, DType::i32);
  return zero_point == no_value ? wide : c.add(F::sub, {wide, c.cast(zero_point, DType::i32)});
}

}  // namespace camshaft::onnx
