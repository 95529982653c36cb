#include "optimize/fuse/repeat_widening.h"

#include <algorithm>

#include "optimize/analysis/fusion_notes.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// The steps that make f32 of 8 bits, from the first to the last: a cast, a zero point and a scale. Empty where the
// value is made otherwise.
std::vector<int32_t> widening_of(const Graph& graph, const Uses& uses, ValueId id) {
  constexpr size_t most = 3;
  std::vector<int32_t> steps;
  while (steps.size() < most) {
    const int32_t n = uses.producer[static_cast<size_t>(id)];
    if (n < 0) return {};
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    if (!is_elementwise(node) || graph.type(node.outputs[0]).dtype != DType::f32) return {};
    steps.insert(steps.begin(), n);
    ValueId operand = no_value;
    for (const ValueId input : node.inputs) {
      if (is_one_element(graph, input)) continue;
      if (operand != no_value) return {};
      operand = input;
    }
    if (operand == no_value || graph.shape(operand) != graph.shape(id)) return {};
    const DType dtype = graph.type(operand).dtype;
    if (dtype == DType::u8 || dtype == DType::i8) return steps;
    id = operand;
  }
  return {};
}

}  // namespace

void repeat_widening(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  const Graph before = graph;
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node& node : nodes) {
    if (takes_steps(before, node) && !uses.single(node.inputs[0])) {
      ValueId last = no_value;
      for (const int32_t n : widening_of(before, uses, node.inputs[0])) {
        const Node& step = before.nodes[static_cast<size_t>(n)];
        std::vector<ValueId> inputs = step.inputs;
        for (ValueId& id : inputs)
          if (last != no_value && !is_one_element(before, id)) id = last;
        last = graph.add(step.op, inputs, before.value(step.outputs[0]).name, step.sources);
      }
      if (last != no_value) node.inputs[0] = last;
    }
    graph.nodes.push_back(std::move(node));
  }
}

}  // namespace camshaft
