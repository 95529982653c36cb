#include "builder/engine_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "builder/verification.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/widened.h"
#include "reference/derived_constant.h"
#include "runtime/context.h"
#include "runtime/engine_impl.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

constexpr size_t most_kept_bytes = size_t{4} << 30;

std::string describe(const PlanStep& step) {
  return fmt::format("layer '{}' ({}, tactic {}), from the model's nodes {}", step.name, step.op, step.tactic,
                     step.sources.empty() ? "-" : fmt::format("{}", fmt::join(step.sources, ", ")));
}

// [n, …, c] as [n, c, …].
Tensor channels_first(const Tensor& last, ThreadPool& pool) {
  ops::Transpose transpose;
  for (int64_t axis = 0; axis < last.rank(); ++axis) transpose.permutation.push_back(axis);
  std::rotate(transpose.permutation.begin() + 1, transpose.permutation.end() - 1, transpose.permutation.end());
  return evaluate_on_constants(transpose, {last}, 1, pool)[0];
}

using Producers = std::map<std::string_view, std::pair<const Node*, ValueId>>;

// What a cast without a node of the model converts: the model's own result, which a pass has in another type.
const Node* converted_by(const Graph& model, const Node* node, const Producers& producers) {
  while (node->sources.empty() && node->op.as<ops::Cast>()) {
    const auto it = producers.find(model.value(node->inputs[0]).name);
    if (it == producers.end()) break;
    node = it->second.first;
  }
  return node;
}

// The model's value that a step computes. Passes that make a node anew call its result like the old one's with a number
// behind it; that it is made of the same node of the model is the proof. A cast that a pass added has no node, and the
// name that it made up may be another value's: '_unsafe_view_1' beside '_unsafe_view'. Null: none.
const std::pair<const Node*, ValueId>* modelled(const Graph& model, const std::string& name, const PlanStep& step,
                                                const Producers& producers) {
  for (std::string_view stem = name;;) {
    if (const auto it = producers.find(stem); it != producers.end()) {
      // With the name of the cast itself, what its operand cannot hold in its type counts as the model has it.
      const Node* node = stem == name ? converted_by(model, it->second.first, producers) : it->second.first;
      const bool same = std::any_of(node->sources.begin(), node->sources.end(), [&](const std::string& source) {
        return std::find(step.sources.begin(), step.sources.end(), source) != step.sources.end();
      });
      if (same || (stem == name && step.sources.empty() && it->second.first->sources.empty())) return &it->second;
    }
    const size_t end = stem.find_last_not_of("0123456789");
    if (end == std::string_view::npos || end == 0 || end + 1 == stem.size() || stem[end] != '_') return nullptr;
    stem = stem.substr(0, end);
  }
}

double greatest_difference(const Tensor& expected, const Tensor& actual) {
  return compare_outputs({""}, {expected}, {actual}, 0)[0].relative();
}

}  // namespace

std::vector<SharedValue> shared_values(const Graph& model, const Plan& plan) {
  Producers producers;
  for (const Node& node : model.nodes)
    for (const ValueId id : node.outputs)
      if (id != no_value && !holds_objects(model.type(id).dtype)) producers[model.value(id).name] = {&node, id};
  std::vector<SharedValue> shared;
  for (const PlanStep& step : plan.steps)
    for (const int32_t id : step.outputs) {
      const PlanValue& value = plan.values[static_cast<size_t>(id)];
      const auto* found = value.storage == Storage::none ? nullptr : modelled(model, value.name, step, producers);
      if (found) shared.push_back({found->first, found->second, id, &step});
    }
  return shared;
}

EngineTensors::EngineTensors(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs,
                             ThreadPool& pool, const Cancellation& cancellation)
    : pool_(pool) {
  const Plan& plan = engine.impl()->plan;
  std::map<std::string, std::string> taps;  // where several have one name, the last is complete
  for (const SharedValue& shared : shared_values(model, plan)) {
    const std::string& name = model.value(shared.id).name;
    taps[name] = plan.values[static_cast<size_t>(shared.planned)].name;
    layers_[name] = describe(*shared.step);
  }
  size_t bytes = 0;
  Context context = engine.create_context({pool.size()});
  context.set_cancellation(cancellation);
  context.rehearse();
  for (size_t i = 0; i < inputs.size(); ++i) context.set_input(engine.inputs()[i].name, view_of(inputs[i]));
  for (const auto& [name, tapped] : taps)
    context.set_tap(tapped, [&, name = name](const TensorView& view) {
      if (bytes + view.bytes > most_kept_bytes) return;
      bytes += view.bytes;
      kept_[name] = copy_of(view);
    });
  context.run();
  for (const TensorInfo& info : engine.outputs()) outputs_.push_back(copy_of(context.output(info.name)));
}

EngineTensors::Taken EngineTensors::take(const std::string& name, const Tensor& expected) {
  auto kept = kept_.extract(name);
  if (!kept || !expected.defined()) return {};
  Tensor actual = std::move(kept.mapped());
  double rounding = 0;
  if ((actual.dtype() == DType::f16 || actual.dtype() == DType::bf16) && expected.dtype() == DType::f32) {
    rounding = actual.dtype() == DType::f16 ? 0x1p-11 : 0x1p-8;
    actual = widened(actual);
  }
  if (actual.dtype() != expected.dtype()) return {};
  Dims last = expected.dims();
  if (last.size() >= 3) std::rotate(last.begin() + 1, last.begin() + 2, last.end());
  const bool as_it_is = actual.dims() == expected.dims(), turned = last.size() >= 3 && actual.dims() == last;
  if (!turned) return as_it_is ? Taken{actual, rounding} : Taken();
  const Tensor first = channels_first(actual, pool_);
  if (as_it_is && greatest_difference(expected, actual) <= greatest_difference(expected, first))
    return {actual, rounding};
  return {first, rounding};
}

std::string EngineTensors::layer_of(const std::string& name) const {
  const auto it = layers_.find(name);
  return it == layers_.end() ? "" : it->second;
}

}  // namespace camshaft
