// The reference evaluation of integer_matmul, integer_conv and dynamic_quantize.
#include "reference/contract/quantized.h"

#include <algorithm>
#include <cmath>

#include "base/pieces.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "reference/evaluate.h"

namespace camshaft::ops {

namespace {

// x - zero in i32; `zero` undefined: 0.
Tensor shifted(const EvalContext& context, const Tensor& x, const Tensor& zero) {
  const auto run = [&](const Op& op, const std::vector<Tensor>& inputs, const Dims& dims) {
    const std::vector<TensorType> types{{DType::i32, Shape(dims.begin(), dims.end())}};
    return camshaft::evaluate(op,
                              {inputs, types, context.bindings, context.bodies, context.pool, context.cancellation})[0];
  };
  Tensor wide = run(Cast{DType::i32}, {x}, x.dims());
  if (!zero.defined()) return wide;
  return run(Pointwise{ScalarFunction::sub}, {wide, run(Cast{DType::i32}, {zero}, zero.dims())}, x.dims());
}

}  // namespace

std::vector<Tensor> IntegerMatMul::evaluate(const EvalContext& context) const {
  const auto input = [&](size_t i) { return context.has(i) ? context.input(i) : Tensor(); };
  const std::vector<Tensor> wide{shifted(context, input(0), input(2)), shifted(context, input(1), input(3))};
  return MatMul{}.evaluate(
      {wide, context.output_types, context.bindings, context.bodies, context.pool, context.cancellation});
}

std::vector<Tensor> IntegerConv::evaluate(const EvalContext& context) const {
  const auto input = [&](size_t i) { return context.has(i) ? context.input(i) : Tensor(); };
  Tensor zero = input(3);
  if (zero.defined() && zero.size() != 1) {
    Dims dims(input(1).dims().size(), 1);
    dims[0] = zero.size();
    zero = zero.reshaped(dims);
  }
  const std::vector<Tensor> wide{shifted(context, input(0), input(2)), shifted(context, input(1), zero), input(4)};
  return Conv{strides, pads, dilations, groups, channels_last}.evaluate(
      {wide, context.output_types, context.bindings, context.bodies, context.pool, context.cancellation});
}

QuantizedRange quantized_range(float low, float high) {
  const float range = high - low;
  const float scale = range == 0 ? 1.0F : range / 255.0F;
  return {scale, quantized(0.0F - low, {scale, 0})};
}

uint8_t quantized(float x, const QuantizedRange& range) {
  const float step = std::nearbyint(x / range.scale) + static_cast<float>(range.zero);
  return std::isnan(step) ? uint8_t{0} : static_cast<uint8_t>(std::clamp(step, 0.0F, 255.0F));
}

std::vector<Tensor> DynamicQuantize::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  const auto* from = x.as<float>();
  float low = 0, high = 0;
  for (int64_t i = 0; i < x.size(); ++i) {
    if (std::isnan(from[i])) low = high = from[i];
    low = std::isnan(low) || low <= from[i] ? low : from[i];
    high = std::isnan(high) || high >= from[i] ? high : from[i];
  }
  const QuantizedRange range = quantized_range(low, high);
  Tensor y(DType::u8, x.dims());
  auto* to = y.as_mutable<uint8_t>();
  for_pieces(context.pool, x.size(), int64_t{1} << 14, [&](int64_t begin, int64_t end) {
    std::transform(from + begin, from + end, to + begin, [&](float number) { return quantized(number, range); });
  });
  return {std::move(y), Tensor::scalar(DType::f32, range.scale), Tensor::scalar(DType::u8, range.zero)};
}

std::vector<Tensor> RoundBlocks::evaluate(const EvalContext& context) const {
  const Tensor& x = context.input(0);
  Tensor y(DType::f32, x.dims());
  const int64_t k = x.dims().back();
  for_pieces(context.pool, k == 0 ? 0 : x.size() / k, (int64_t{1} << 14) / std::max<int64_t>(1, k) + 1,
             [&](int64_t begin, int64_t end) {
               for (int64_t row = begin; row < end; ++row)
                 for (int64_t at = 0; at < k; at += block) {
                   const auto* from = x.as<float>() + row * k + at;
                   const int64_t count = std::min(block, k - at);
                   float most = least;
                   for (int64_t i = 0; i < count; ++i)
                     if (!(std::fabs(from[i]) <= most)) most = std::isnan(most) ? most : std::fabs(from[i]);
                   const float unit = most / highest, inverse = highest / most;
                   auto* to = y.as_mutable<float>() + row * k + at;
                   // Of infinity: 0 · infinity.
                   for (int64_t i = 0; i < count; ++i) to[i] = std::nearbyint(from[i] * inverse) * unit;
                 }
             });
  return {std::move(y)};
}

}  // namespace camshaft::ops
