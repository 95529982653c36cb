#include "builder/engine_noise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "builder/engine_tensors.h"
#include "builder/rounded_steps.h"
#include "compile/tactic.h"
#include "ir/ops/contract.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

// The largest errors of Winograd's F(4x4, 3x3) are twice those of a sum one by one (winograd.h).
constexpr double approximate_sums = 2;
// An engine may differ by four times what noise makes of it.
constexpr double before_steps = moved_by_steps / 4;
// Half of f16's steps below 2^-14.
constexpr double least_of_f16 = 0x1p-25;

bool is_narrow_float(const Plan& plan, int32_t value) {
  if (value < 0) return false;
  const DType dtype = plan.values[static_cast<size_t>(value)].type.dtype;
  return dtype == DType::f16 || dtype == DType::bf16;
}

// Products of floats that round nothing but their operands. Attention rounds probabilities, recurrent layers states.
bool rounds_operands_alone(const Op& op) {
  return op.as<ops::MatMul>() || op.as<ops::Conv>() || op.as<ops::ConvTranspose>();
}

// Which of a model's results an engine that may use narrower types computes no less precisely than f32 does, and which
// of them, and of its inputs, something narrows.
class WideResults {
 public:
  WideResults(const Graph& model, const Plan& plan) : model_(model), plan_(plan) {
    for (const PlanStep& step : plan.steps)
      for (const std::string& source : step.sources) steps_[source].insert(&step);
  }

  struct Found {
    std::set<ValueId> wide, narrowed;  // the latter: operands of products of narrow types, also before moves
  };
  Found find() const {
    Found found;
    found.wide.insert(model_.inputs.begin(), model_.inputs.end());
    for (auto node = model_.nodes.rbegin(); node != model_.nodes.rend(); ++node) {
      const bool is_moved = node->op.traits().kind == OpKind::move && found.narrowed.contains(node->outputs[0]);
      const bool rounds = node->op.traits().kind == OpKind::contraction && !multiplies_bytes(*node);
      const bool is_stored_wide = has_wide_steps(*node);
      if (is_moved || rounds || !is_stored_wide) found.narrowed.insert(node->inputs.begin(), node->inputs.end());
      const bool computes_wide =
          node->op.traits().kind != OpKind::other && (!rounds || rounds_operands_alone(node->op));
      if (is_stored_wide && computes_wide) found.wide.insert(node->outputs[0]);
    }
    return found;
  }

 private:
  DType type_of(int32_t value) const { return plan_.values[static_cast<size_t>(value)].type.dtype; }

  // Asks of all steps that compute the node; there must be some.
  template <class Predicate>
  bool all_steps(const Node& node, const Predicate& predicate) const {
    bool has_steps = false;
    for (const std::string& source : node.sources) {
      const auto found = steps_.find(source);
      if (found == steps_.end()) return false;
      has_steps = true;
      if (!std::all_of(found->second.begin(), found->second.end(), predicate)) return false;
    }
    return has_steps;
  }

  // Those are exact.
  bool multiplies_bytes(const Node& node) const {
    return all_steps(node, [&](const PlanStep* step) {
      return !step->inputs.empty() && step->inputs[0] >= 0 && bit_width(type_of(step->inputs[0])) == 8;
    });
  }

  // Whether what is stored before and behind is f32 at least.
  bool has_wide_steps(const Node& node) const {
    const auto narrow = [&](int32_t value) { return is_narrow_float(plan_, value); };
    return all_steps(node, [&](const PlanStep* step) {
      return std::none_of(step->inputs.begin(), step->inputs.end(), narrow) &&
             std::none_of(step->outputs.begin(), step->outputs.end(), narrow);
    });
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
  WideResults::Found found = WideResults(model, plan).find();
  wide_ = std::move(found.wide);
  narrowed_ = std::move(found.narrowed);
  const auto is_narrow = [&](int32_t id) {
    const DType dtype = plan.values[static_cast<size_t>(id)].type.dtype;
    return is_floating(dtype) && bit_width(dtype) <= 16;
  };
  stores_narrow_ = std::any_of(plan.steps.begin(), plan.steps.end(), [&](const PlanStep& step) {
    return std::any_of(step.outputs.begin(), step.outputs.end(), is_narrow);
  });
  key_ = fmt::format("{};{};{};{};{}", fmt::join(approximate_, ","), fmt::join(stored_as_f16_, ","),
                     fmt::join(before_steps_, ","), fmt::join(wide_, ","), fmt::join(narrowed_, ","));
}

RoundingNoise EngineNoise::of(ValueId value, RoundingNoise noise) const {
  const double as_operand = noise.of_results;
  noise = of_result(value, noise);
  if (narrowed_.contains(value)) noise.of_results = as_operand;
  return noise;
}

RoundingNoise EngineNoise::of_result(ValueId value, RoundingNoise noise) const {
  if (wide_.contains(value)) noise.of_results = std::min(noise.of_results, noise_of_f32);
  if (approximate_.contains(value)) noise.of_sums *= approximate_sums;
  if (stored_as_f16_.contains(value)) noise.least = least_of_f16;
  if (before_steps_.contains(value)) noise.least = before_steps;
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
