#include "runtime/step_weights.h"

#include <algorithm>

#include "ir/ops/move.h"
#include "ir/ops/region.h"

namespace camshaft {

namespace {

void add(std::vector<StepWeight>& list, const std::string& constant, const std::string& layout,
         std::span<const std::byte> bytes, bool is_table = false) {
  const auto known = std::find_if(list.begin(), list.end(), [&](const StepWeight& one) {
    return one.bytes.data() == bytes.data() && one.bytes.size() == bytes.size();
  });
  if (known != list.end()) {
    known->is_table = known->is_table && is_table;
  } else if (!bytes.empty()) {
    list.push_back({constant, layout, bytes, is_table});
  }
}

void add_tensor(std::vector<StepWeight>& list, const std::string& name, const Tensor& tensor, bool is_table = false) {
  if (tensor.defined() && !tensor.is_elided() && !holds_objects(tensor.dtype()))
    add(list, name, "", tensor.span(), is_table);
}

// Whether the node reads rows of its operand alone, whose elements lie side by side.
bool looks_up_rows(const Node& node, size_t operand) {
  const auto* const gather = node.op.as<ops::Gather>();
  return gather && gather->axis == 0 && operand == 0;
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
      const bool is_table = step.node >= 0 && looks_up_rows(graph.nodes[static_cast<size_t>(step.node)], i);
      if (value.storage == Storage::constant) add_tensor(list, value.name, *value.constant, is_table);
    }
    for (const PackedUse& use : step.packed) add(list, use.constant, use.layout, use.bytes);
    if (step.node >= 0) add_bodies(list, graph.nodes[static_cast<size_t>(step.node)]);
  }
  return weights;
}

}  // namespace camshaft
