#include "reference/rounding.h"

#include <algorithm>
#include <cmath>

#include "base/float_types.h"
#include "ir/ops/contract.h"
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

Tensor with_noise(const Tensor& exact, const Tensor& scale, const RoundingNoise& noise, Random& random) {
  const DType dtype = exact.dtype();
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return exact;
  const double unit = dtype == DType::f32 ? 1 : dtype == DType::f16 ? 0x1p13 : 0x1p16;
  // That of a narrow type is its own.
  const double own = std::min(noise.of_results, 0x1p-22) * unit;
  const auto part = static_cast<float>(std::max(noise.of_results, own)), of_sums = static_cast<float>(noise.of_sums);
  const float* scales = scale.defined() ? scale.as<float>() : nullptr;
  const auto count = static_cast<size_t>(exact.size());
  std::vector<float> values(count);
  convert_to_float(dtype, exact.data(), values.data(), exact.size());
  uint64_t bits = 0;
  for (size_t i = 0; i < count; ++i, bits >>= 1) {
    if (i % 64 == 0) bits = random.next();
    const float sign = (bits & 1) != 0 ? 1.0F : -1.0F;
    values[i] *= 1 + sign * part;
    if (scales && std::isfinite(scales[i])) values[i] += sign * std::copysign(of_sums * scales[i], values[i]);
  }
  Tensor noisy(dtype, exact.dims());
  convert_from_float(dtype, values.data(), noisy.mutable_data(), exact.size());
  return noisy;
}

}  // namespace camshaft
