#include "optimize/analysis/channel_affine.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"
#include "reference/element_io.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// A constant with one number a channel (or one for all), laid out against `type`. Empty where it may be replaced: what
// is done then is right for any numbers.
std::optional<std::vector<double>> per_channel(const Graph& graph, ValueId id, const TensorType& type, size_t axis,
                                               int64_t channels) {
  if (!is_readable_constant(graph, id)) return std::nullopt;
  const Tensor& t = *graph.value(id).constant;
  if (t.dtype() != type.dtype || t.dims().size() > type.shape.size()) return std::nullopt;
  const size_t lead = type.shape.size() - t.dims().size();
  for (size_t i = 0; i < t.dims().size(); ++i)
    if (t.dims()[i] != 1 && (lead + i != axis || t.dims()[i] != channels)) return std::nullopt;
  if (may_be_replaced(graph.value(id).provenance)) return std::vector<double>();
  fix_numbers(graph, id, "a factor or a shift of channels");
  std::vector<double> values(static_cast<size_t>(channels));
  ops::load_elements(t.dtype(), t.data(), 0, t.size() == 1 ? 0 : 1, channels, values.data());
  if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) return std::nullopt;
  return values;
}

ChannelAffine as_affine(const Graph& graph, const ChannelStep& step, ThreadPool& pool) {
  const Constant given = derive_cast(graph.constant(step.constant), DType::f64, pool);
  const Constant numbers = derive_reshaped(given, {given.tensor->size()}, pool);
  if (step.function == F::add) return {{}, numbers};
  if (step.function == F::mul) return {numbers, {}};
  if (step.function == F::div) return {derive(F::reciprocal, {numbers}, pool), {}};
  if (!step.constant_first) return {{}, derive(F::neg, {numbers}, pool)};
  return {literal(Tensor::scalar(DType::f64, -1).reshaped({1})), numbers};
}

}  // namespace

std::optional<ChannelStep> channel_step(const Graph& graph, const Node& node, size_t axis, int64_t channels) {
  const auto* pointwise = node.op.as<ops::Pointwise>();
  if (!pointwise || node.inputs.size() != 2) return std::nullopt;
  const TensorType& type = graph.type(node.outputs[0]);
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const ValueId x = node.inputs[i];
    if (graph.is_constant(x) || graph.type(x) != type) continue;
    const auto c = per_channel(graph, node.inputs[1 - i], type, axis, channels);
    if (!c) continue;
    const F function = pointwise->function;
    const bool constant_first = i == 1, adds = function == F::add || function == F::sub;
    const bool has_zero = std::find(c->begin(), c->end(), 0) != c->end();
    if (!adds && function != F::mul && (function != F::div || constant_first || has_zero)) return std::nullopt;
    const bool shifts = adds && (c->empty() || std::any_of(c->begin(), c->end(), [](double v) { return v != 0; }));
    return ChannelStep{x, node.inputs[1 - i], function, constant_first, shifts};
  }
  return std::nullopt;
}

ChannelAffine composed(const Graph& graph, const std::vector<ChannelStep>& steps, ThreadPool& pool) {
  ChannelAffine total;
  for (const ChannelStep& step : steps) {
    const ChannelAffine next = as_affine(graph, step, pool);
    if (total.shift.tensor) total.shift = multiplied(total.shift, next.scale, pool);
    total.shift = added(total.shift, next.shift, pool);
    total.scale = multiplied(total.scale, next.scale, pool);
  }
  return total;
}

bool has_other_than(const Constant& numbers, double neutral) {
  if (!numbers.tensor) return false;
  if (may_be_replaced(numbers.provenance)) return true;
  const auto* x = numbers.tensor->as<double>();
  return std::any_of(x, x + numbers.tensor->size(), [&](double v) { return v != neutral; });
}
bool scales(const ChannelAffine& affine) {
  return has_other_than(affine.scale, 1);
}
bool shifts(const ChannelAffine& affine) {
  return has_other_than(affine.shift, 0);
}

Constant multiplied(const Constant& a, const Constant& b, ThreadPool& pool) {
  return !a.tensor ? b : !b.tensor ? a : derive(F::mul, {a, b}, pool);
}
Constant added(const Constant& a, const Constant& b, ThreadPool& pool) {
  return !a.tensor ? b : !b.tensor ? a : derive(F::add, {a, b}, pool);
}

Constant for_each_channel(const Constant& numbers, int64_t channels, ThreadPool& pool) {
  if (numbers.tensor->size() == channels) return numbers;
  return derive(ops::Expand{{channels}}, {numbers}, pool);
}

}  // namespace camshaft
