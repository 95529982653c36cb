#include "builder/engine_noise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "builder/engine_tensors.h"
#include "builder/rounded_steps.h"
#include "compile/tactic.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

// The largest errors of Winograd's F(4x4, 3x3) are twice those of a sum one by one (winograd.h).
constexpr double approximate_sums = 2;
// An engine may differ by four times what noise makes of it.
constexpr double before_steps = moved_by_steps / 4;
// Half of f16's steps below 2^-14.
constexpr double least_of_f16 = 0x1p-25;
constexpr double noise_of_f32 = 0x1p-22;

// Which of a model's results an engine that may use narrower types computes no less precisely than f32 does, and gives
// to nothing that narrows them.
class WideResults {
 public:
  WideResults(const Graph& model, const Plan& plan) : model_(model), plan_(plan) {
    for (const PlanStep& step : plan.steps)
      for (const std::string& source : step.sources) steps_[source].insert(&step);
  }

  std::set<ValueId> find() const {
    std::set<ValueId> wide, narrowed;  // the latter: operands of products of narrow types, also before moves
    for (auto node = model_.nodes.rbegin(); node != model_.nodes.rend(); ++node) {
      const OpKind kind = node->op.traits().kind;
      const bool is_wide = is_computed_wide(*node, kind);
      const bool is_moved = kind == OpKind::move && narrowed.contains(node->outputs[0]);
      if (!is_wide || is_moved) narrowed.insert(node->inputs.begin(), node->inputs.end());
      if (is_wide && !narrowed.contains(node->outputs[0])) wide.insert(node->outputs[0]);
    }
    return wide;
  }

 private:
  DType type_of(int32_t value) const { return plan_.values[static_cast<size_t>(value)].type.dtype; }
  bool is_narrow(int32_t value) const {
    return value >= 0 && (type_of(value) == DType::f16 || type_of(value) == DType::bf16);
  }

  // Products of floats may round their operands; those of bytes are exact.
  bool is_computed_wide(const Node& node, OpKind kind) const {
    if (kind == OpKind::other) return false;
    bool has_steps = false;
    for (const std::string& source : node.sources) {
      const auto found = steps_.find(source);
      if (found == steps_.end()) return false;
      for (const PlanStep* step : found->second) {
        has_steps = true;
        const auto narrow = [&](int32_t value) { return is_narrow(value); };
        if (std::any_of(step->inputs.begin(), step->inputs.end(), narrow) ||
            std::any_of(step->outputs.begin(), step->outputs.end(), narrow))
          return false;
        if (kind == OpKind::contraction &&
            (step->inputs.empty() || step->inputs[0] < 0 || bit_width(type_of(step->inputs[0])) != 8))
          return false;
      }
    }
    return has_steps;
  }

  const Graph& model_;
  const Plan& plan_;
  std::map<std::string_view, std::set<const PlanStep*>> steps_;  // by the model's nodes
};

}  // namespace

EngineNoise::EngineNoise(const Graph& model, const Engine& engine) {
  const Plan& plan = engine.impl()->plan;
  std::set<std::string_view> sources, of_moved_steps;
  for (const PlanStep& step : plan.steps) {
    if (step.deviation >= Deviation::rounding) sources.insert(step.sources.begin(), step.sources.end());
    if (step.moves_steps) of_moved_steps.insert(step.sources.begin(), step.sources.end());
  }
  const auto is_of = [](const Node& node, const std::set<std::string_view>& names) {
    return std::any_of(node.sources.begin(), node.sources.end(), [&](const auto& s) { return names.contains(s); });
  };
  for (const Node& node : model.nodes) {
    if (node.op.traits().kind == OpKind::contraction && is_of(node, sources)) approximate_.insert(node.outputs[0]);
    if (rounds_to_steps(node) && is_of(node, of_moved_steps)) before_steps_.insert(node.inputs[0]);
  }
  const auto is_f16 = [&](int32_t id) { return plan.values[static_cast<size_t>(id)].type.dtype == DType::f16; };
  std::map<int32_t, const Node*> nodes;  // by the plan's values
  for (const SharedValue& shared : shared_values(model, plan)) nodes[shared.planned] = shared.node;
  for (const auto& [planned, node] : nodes)
    if (is_f16(planned)) stored_as_f16_.insert(node->outputs[0]);
  // What stays f32, as DeiT's tokens do, of which one is too small for f16, may be narrowed for those that read it.
  for (const PlanStep& step : plan.steps)
    if (step.op == "cast" && is_f16(step.outputs[0]))
      if (const auto it = nodes.find(step.inputs[0]); it != nodes.end()) stored_as_f16_.insert(it->second->outputs[0]);
  wide_ = WideResults(model, plan).find();
  key_ = fmt::format("{};{};{};{}", fmt::join(approximate_, ","), fmt::join(stored_as_f16_, ","),
                     fmt::join(before_steps_, ","), fmt::join(wide_, ","));
}

RoundingNoise EngineNoise::of(ValueId result, RoundingNoise noise) const {
  if (wide_.contains(result)) noise.of_results = std::min(noise.of_results, noise_of_f32);
  if (approximate_.contains(result)) noise.of_sums *= approximate_sums;
  if (stored_as_f16_.contains(result)) noise.least = least_of_f16;
  if (before_steps_.contains(result)) noise.least = before_steps;
  return noise;
}

Graph with_noisy_weights(Graph graph, double part, uint64_t seed) {
  Random random(seed);
  std::set<ValueId> weights;
  for (const Node& node : graph.nodes)
    if (node.op.traits().kind == OpKind::contraction)
      for (const ValueId id : node.inputs)
        if (id != no_value && graph.is_constant(id) && graph.value(id).constant->rank() > 1) weights.insert(id);
  for (const ValueId id : weights) {
    Value& value = graph.value(id);
    value.constant = std::make_shared<const Tensor>(with_noise(*value.constant, {}, {part, 0}, random));
  }
  return graph;
}

}  // namespace camshaft
