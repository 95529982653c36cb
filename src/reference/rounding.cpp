#include "reference/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/float_types.h"
#include "base/work_scope.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/recurrent.h"
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

// Of each step, row, direction and gate the sum of the magnitudes that rounding_scale() asks for: [time · batch,
// directions · gates]. Of the state it takes the largest number that each of its elements ever is.
Tensor gate_scales(const EvalContext& context, const Tensor& y) {
  using enum ops::Recurrent::Input;
  const Tensor &x = context.input(in_x), &weights = context.input(in_weights);
  const Dims recurrence = context.input(in_recurrence).dims();
  const int64_t in = x.dims()[2], directions = recurrence[0], gates = recurrence[1], hidden = recurrence[2];
  const Tensor rows = magnitudes_of(x).reshaped({x.dims()[0] * x.dims()[1], in});
  const Tensor matrix = magnitudes_of(weights).reshaped({directions * gates, in});
  const std::vector<Tensor> operands = {rows, matrix};
  const std::vector<TensorType> types = {{DType::f32, {Dim(rows.dims()[0]), Dim(directions * gates)}}};
  Tensor scales = evaluate(ops::MatMul{false, true},
                           {operands, types, context.bindings, context.bodies, context.pool, context.cancellation})[0];

  std::vector<float> most(static_cast<size_t>(directions * hidden), 0);
  const auto take_largest = [&](const Tensor& states) {  // [..., directions, batch, hidden]
    const int64_t batch = states.dims()[states.dims().size() - 2];
    for (int64_t i = 0; i < states.size(); ++i) {
      float& largest = most[static_cast<size_t>(i / (batch * hidden) % directions * hidden + i % hidden)];
      largest = std::max(largest, std::fabs(states.as<float>()[i]));
    }
  };
  take_largest(y);
  if (context.has(in_h)) take_largest(context.input(in_h));

  const float* r = context.input(in_recurrence).as<float>();
  std::vector<float> of_state(static_cast<size_t>(directions * gates), 0);
  for (int64_t g = 0; g < directions * gates; ++g)
    for (int64_t i = 0; i < hidden; ++i)
      of_state[static_cast<size_t>(g)] +=
          std::fabs(r[g * hidden + i]) * most[static_cast<size_t>(g / gates * hidden + i)];
  const float root_in = std::sqrt(static_cast<float>(in)), root_hidden = std::sqrt(static_cast<float>(hidden));
  auto* sums = scales.as_mutable<float>();
  for (int64_t i = 0; i < scales.size(); ++i)
    sums[i] = root_in * sums[i] + root_hidden * of_state[static_cast<size_t>(i % (directions * gates))];
  return scales;
}

// [rows, columns] and [rows, more] side by side.
Tensor side_by_side(const Tensor& left, const Tensor& right, Dims dims) {
  const int64_t columns = left.dims().back(), more = right.dims().back();
  dims.back() = columns + more;
  Tensor made(DType::f32, dims);
  auto* to = made.as_mutable<float>();
  for (int64_t row = 0; row * (columns + more) < made.size(); ++row) {
    to = std::copy_n(left.as<float>() + row * columns, columns, to);
    to = std::copy_n(right.as<float>() + row * more, more, to);
  }
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

std::vector<Tensor> with_noisy_sums(const Op& op, const EvalContext& context, const std::vector<Tensor>& results,
                                    double of_sums, Random& random) {
  using enum ops::Recurrent::Input;
  if (!op.as<ops::Recurrent>() || context.input(in_x).dtype() != DType::f32 || results[1].size() == 0) return {};
  // Each gate gets an input of its own beside those that there are, with a weight of 1: the noise.
  Tensor noise = gate_scales(context, results[0]);
  const int64_t gates = noise.dims()[1];
  auto* values = noise.as_mutable<float>();
  uint64_t bits = 0;
  for (int64_t i = 0; i < noise.size(); ++i, bits >>= 1) {
    if (i % 64 == 0) bits = random.next();
    values[i] = std::isfinite(values[i]) ? values[i] * static_cast<float>((bits & 1) != 0 ? of_sums : -of_sums) : 0;
  }
  Tensor ones(DType::f32, {gates, gates});
  std::fill_n(ones.as_mutable<float>(), ones.size(), 0.0F);
  for (int64_t g = 0; g < gates; ++g) ones.as_mutable<float>()[g * gates + g] = 1;
  std::vector<Tensor> inputs = context.inputs;
  inputs[in_x] = side_by_side(inputs[in_x], noise, inputs[in_x].dims());
  inputs[in_weights] = side_by_side(inputs[in_weights], ones, inputs[in_weights].dims());
  return evaluate(op,
                  {inputs, context.output_types, context.bindings, context.bodies, context.pool, context.cancellation});
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
  // Below the smallest normal number steps do not shrink any more.
  const double fixed_part = part * (is_wide ? 0x1p-1022 : dtype == DType::f16 ? 0x1p-14 : 0x1p-126);
  const double largest = is_wide                ? std::numeric_limits<double>::max()
                         : dtype == DType::f32  ? static_cast<double>(std::numeric_limits<float>::max())
                         : dtype == DType::bf16 ? 0x1.FEp127
                                                : 65504;
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
      const bool is_finite = std::isfinite(value);
      const Number size = std::fabs(value), least_step = static_cast<Number>(fixed_part);
      // What would become 0 moves away from it, and what would become infinite stays finite: quotients and rows of
      // masks would be no numbers any more, whatever the engine computes.
      const Number sign = (bits & 1) != 0 || (size > 0 && size <= least_step) ? 1 : -1;
      const Number of_storage = std::min(static_cast<Number>(least), size);
      if (size > 0 && is_finite)
        value += sign * std::copysign(std::max({static_cast<Number>(part) * size, of_storage, least_step}), value);
      if (scales && std::isfinite(scales[i]))
        value += sign * std::copysign(static_cast<Number>(of_sums * scales[i]), value);
      if (is_finite) value = std::clamp(value, static_cast<Number>(-largest), static_cast<Number>(largest));
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
