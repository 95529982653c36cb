#include "ir/ops/quantized.h"

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

namespace {

void check_operands(std::string_view op, const InferContext& context) {
  for (const size_t i : {0, 1}) {
    const DType dtype = context.dtype(i);
    if (dtype != DType::i8 && dtype != DType::u8) fail_rule("{} takes i8 or u8, not {}", op, to_string(dtype));
    if (context.has(2 + i) && context.dtype(2 + i) != dtype)
      fail_rule("{}: the zero point of {} is {}", op, to_string(dtype), to_string(context.dtype(2 + i)));
  }
}

// The shape rule of the product of numbers that the integer one follows.
template <class T>
std::vector<Inferred> infer_as(const T& op, const InferContext& context, bool bias) {
  Value x = context.value(0), weights = context.value(1);
  x.type.dtype = weights.type.dtype = DType::i32;
  x.constant = weights.constant = nullptr;
  std::vector<const Value*> inputs{&x, &weights};
  if (bias) inputs.push_back(&context.value(4));
  return op.infer(InferContext(std::move(inputs), {"y"}, nullptr));
}

// x - zero in i32; `zero` undefined: 0.
Tensor shifted(const EvalContext& context, const Tensor& x, const Tensor& zero) {
  const auto run = [&](const Op& op, const std::vector<Tensor>& inputs, const Dims& dims) {
    const std::vector<TensorType> types{{DType::i32, Shape(dims.begin(), dims.end())}};
    return op.evaluate({inputs, types, context.bindings, context.bodies, context.pool, context.cancellation})[0];
  };
  Tensor wide = run(Cast{DType::i32}, {x}, x.dims());
  if (!zero.defined()) return wide;
  return run(Pointwise{ScalarFunction::sub}, {wide, run(Cast{DType::i32}, {zero}, zero.dims())}, x.dims());
}

}  // namespace

std::vector<Inferred> IntegerMatMul::infer(const InferContext& context) const {
  check_operands(name, context);
  for (const size_t i : {0, 1}) {
    if (!context.has(2 + i) || context.rank(2 + i) == 0) continue;
    const Shape &zero = context.shape(2 + i), &operand = context.shape(i);
    if (zero.size() > operand.size()) fail_rule("{}: a zero point has more axes than its operand", name);
    const bool one = i == 0 ? zero.back() == Dim(1) : zero.size() < 2 || zero[zero.size() - 2] == Dim(1);
    if (!one) fail_rule("{}: a zero point differs along the axis that is summed over", name);
    for (size_t d = 0; d < zero.size(); ++d)
      if (zero[d] != Dim(1)) same_size(zero[d], operand[operand.size() - zero.size() + d], "a zero point", d);
  }
  return infer_as(MatMul{}, context, false);
}

std::vector<Tensor> IntegerMatMul::evaluate(const EvalContext& context) const {
  const auto input = [&](size_t i) { return context.has(i) ? context.input(i) : Tensor(); };
  const std::vector<Tensor> wide{shifted(context, input(0), input(2)), shifted(context, input(1), input(3))};
  return MatMul{}.evaluate(
      {wide, context.output_types, context.bindings, context.bodies, context.pool, context.cancellation});
}

std::vector<Inferred> IntegerConv::infer(const InferContext& context) const {
  check_operands(name, context);
  if (context.has(2) && (context.rank(2) > 1 || provably_different(context.rank(2) ? context.shape(2)[0] : 1, 1)))
    fail_rule("{}: the zero point of the input is one number", name);
  if (context.has(3) && (context.rank(3) > 1 || (context.rank(3) == 1 && context.shape(3)[0] != Dim(1) &&
                                                 provably_different(context.shape(3)[0], context.shape(1)[0]))))
    fail_rule("{}: the zero point of the weights is one number, or one a channel", name);
  return infer_as(Conv{strides, pads, dilations, groups, channels_last}, context, context.has(4));
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

std::vector<Inferred> DynamicQuantize::infer(const InferContext& context) const {
  if (context.dtype(0) != DType::f32) fail_rule("{} takes f32, not {}", name, to_string(context.dtype(0)));
  return {{{DType::u8, context.shape(0)}}, {{DType::f32, {}}}, {{DType::u8, {}}}};
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
  context.pool.parallel_for(x.size(), int64_t{1} << 14, [&](int64_t begin, int64_t end) {
    std::transform(from + begin, from + end, to + begin, [&](float number) { return quantized(number, range); });
  });
  return {std::move(y), Tensor::scalar(DType::f32, range.scale), Tensor::scalar(DType::u8, range.zero)};
}

}  // namespace camshaft::ops
