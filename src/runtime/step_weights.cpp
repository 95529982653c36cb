#include "runtime/step_weights.h"

#include <algorithm>

#include "ir/ops/region.h"

namespace camshaft {

namespace {

void add(std::vector<StepWeight>& list, const std::string& constant, const std::string& layout,
         std::span<const std::byte> bytes) {
  const bool is_known = std::any_of(list.begin(), list.end(), [&](const StepWeight& known) {
    return known.bytes.data() == bytes.data() && known.bytes.size() == bytes.size();
  });
  if (!bytes.empty() && !is_known) list.push_back({constant, layout, bytes});
}

void add_tensor(std::vector<StepWeight>& list, const std::string& name, const Tensor& tensor) {
  if (tensor.defined() && !tensor.is_elided() && !holds_objects(tensor.dtype())) add(list, name, "", tensor.span());
}

void add_bodies(std::vector<StepWeight>& list, const Node& node) {
  if (node.op.as<ops::Region>()) return;  // whose constants are its operands
  for (const Graph& body : node.bodies) {
    for (const Value& value : body.values)
      if (value.constant) add_tensor(list, value.name, *value.constant);
    for (const Node& inner : body.nodes) add_bodies(list, inner);
  }
}

}  // namespace

std::vector<std::vector<StepWeight>> step_weights(const Plan& plan, const Graph& graph) {
  std::vector<std::vector<StepWeight>> weights;
  for (const PlanStep& step : plan.steps) {
    std::vector<StepWeight>& list = weights.emplace_back();
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] < 0 || !step.kernel->reads_input(i)) continue;
      const PlanValue& value = plan.values[static_cast<size_t>(plan.root(step.inputs[i]))];
      if (value.storage == Storage::constant) add_tensor(list, value.name, *value.constant);
    }
    for (const PackedUse& use : step.packed) add(list, use.constant, use.layout, use.bytes);
    if (step.node >= 0) add_bodies(list, graph.nodes[static_cast<size_t>(step.node)]);
  }
  return weights;
}

}  // namespace camshaft
