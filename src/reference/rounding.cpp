#include "reference/rounding.h"

#include <algorithm>
#include <cmath>

#include "base/float_types.h"
#include "base/work_scope.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/strides.h"
#include "reference/evaluate.h"

namespace camshaft {

namespace {

// How many products an operator adds up for an element of its result; 0: it is no such operator.
int64_t summed_terms(const Op& op, const EvalContext& context) {
  const auto dims = [&](size_t input) { return context.input(input).dims(); };
  if (const auto* product = op.as<ops::MatMul>()) return dims(0)[dims(0).size() - (product->transpose_a ? 2 : 1)];
  if (op.as<ops::Conv>()) return element_count(dims(1)) / std::max<int64_t>(dims(1)[0], 1);
  if (const auto* conv = op.as<ops::ConvTranspose>())
    return element_count(dims(1)) / std::max<int64_t>(dims(1)[1] * conv->groups, 1);
  if (const auto* pool = op.as<ops::Pool>())
    return pool->kind == ops::PoolKind::average ? element_count(pool->kernel) : 0;
  const auto* reduce = op.as<ops::Reduce>();
  if (!reduce || (reduce->kind != ops::ReduceKind::sum && reduce->kind != ops::ReduceKind::mean)) return 0;
  int64_t terms = 1;
  for (const int64_t axis : reduce->axes) terms *= dims(0)[static_cast<size_t>(axis)];
  return terms;
}

Tensor magnitudes_of(const Tensor& tensor) {
  Tensor made(tensor.dtype(), tensor.dims());
  std::transform(tensor.as<float>(), tensor.as<float>() + tensor.size(), made.as_mutable<float>(),
                 [](float x) { return std::fabs(x); });
  return made;
}

}  // namespace

Tensor rounding_scale(const Op& op, const EvalContext& context) {
  const auto terms = static_cast<float>(summed_terms(op, context));
  if (terms == 0) return {};
  std::vector<Tensor> magnitudes = context.inputs;
  for (Tensor& input : magnitudes) {
    if (!input.defined()) continue;
    if (input.dtype() != DType::f32) return {};
    input = magnitudes_of(input);
  }
  Tensor scale = evaluate(
      op, {magnitudes, context.output_types, context.bindings, context.bodies, context.pool, context.cancellation})[0];
  auto* sums = scale.as_mutable<float>();
  std::for_each(sums, sums + scale.size(), [&](float& sum) { sum *= std::sqrt(terms); });
  return scale;
}

bool keeps_whole_numbers(const Op& op) {
  if (op.traits().kind == OpKind::move || op.selects() || op.as<ops::Cast>()) return true;
  const auto* pointwise = op.as<ops::Pointwise>();
  if (!pointwise) return false;
  switch (pointwise->function) {
    case ScalarFunction::neg:
    case ScalarFunction::abs:
    case ScalarFunction::sign:
    case ScalarFunction::ceil:
    case ScalarFunction::floor:
    case ScalarFunction::round:
    case ScalarFunction::add:
    case ScalarFunction::sub:
    case ScalarFunction::mul:
      return true;
    default:
      return false;
  }
}

Tensor with_noise(const Tensor& exact, const Tensor& scale, const RoundingNoise& noise, Random& random,
                  WholeNumbers whole_numbers) {
  const DType dtype = exact.dtype();
  const bool is_wide = dtype == DType::f64;
  if (!is_wide && dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return exact;
  const double unit = is_wide ? 0x1p-29 : dtype == DType::f32 ? 1 : dtype == DType::f16 ? 0x1p13 : 0x1p16;
  // That of a narrow type is its own, and nothing is stored in a narrower one than f64 was.
  const double own = std::min(noise.of_results, 0x1p-22) * unit;
  const double part = is_wide ? own : static_cast<float>(std::max(noise.of_results, own));
  const auto of_sums = static_cast<float>(noise.of_sums);
  const double least = dtype == DType::f32 ? noise.least : 0;
  const float* scales = scale.defined() ? scale.as<float>() : nullptr;
  uint64_t bits = 0;
  const auto add_noise = [&](auto* values, int64_t count) {
    using Number = std::remove_pointer_t<decltype(values)>;
    for (int64_t i = 0; i < count; ++i, bits >>= 1) {
      if (i % 64 == 0) bits = random.next();
      if (i % (1 << 16) == 0) cancellation_point();
      Number& value = values[i];
      // Beyond that, what is rounded to as many bits is a whole number anyhow.
      if (whole_numbers == WholeNumbers::stay && std::fabs(value) * noise.of_results <= 1 && std::trunc(value) == value)
        continue;
      const Number sign = (bits & 1) != 0 ? 1 : -1;
      const Number fixed = least > 0 ? std::min(static_cast<Number>(least) / std::fabs(value), Number(1)) : 0;
      value *= 1 + sign * std::max(static_cast<Number>(part), fixed);
      if (scales && std::isfinite(scales[i]))
        value += sign * std::copysign(static_cast<Number>(of_sums * scales[i]), value);
    }
  };
  Tensor noisy(dtype, exact.dims());
  if (is_wide) {
    std::copy_n(exact.as<double>(), exact.size(), noisy.as_mutable<double>());
    add_noise(noisy.as_mutable<double>(), exact.size());
    return noisy;
  }
  std::vector<float> values(static_cast<size_t>(exact.size()));
  convert_to_float(dtype, exact.data(), values.data(), exact.size());
  add_noise(values.data(), exact.size());
  convert_from_float(dtype, values.data(), noisy.mutable_data(), exact.size());
  return noisy;
}

}  // namespace camshaft
