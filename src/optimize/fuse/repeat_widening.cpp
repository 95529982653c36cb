#include "optimize/fuse/repeat_widening.h"

#include <algorithm>
#include <map>

#include "ir/ops/contraction.h"
#include "ir/ops/pointwise.h"
#include "optimize/analysis/fusion_notes.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// What a Dequantize is made of.
bool is_widening_step(const Node& node) {
  if (node.op.as<ops::Cast>()) return true;
  const auto* op = node.op.as<ops::Pointwise>();
  if (!op) return false;
  const ScalarFunction f = op->function;
  return f == ScalarFunction::add || f == ScalarFunction::sub || f == ScalarFunction::mul || f == ScalarFunction::div;
}

// The steps that make f32 of 8 bits, from the first to the last: a cast, a zero point and a scale. Empty where the
// value is made otherwise.
std::vector<int32_t> widening_of(const Graph& graph, const Uses& uses, ValueId id) {
  constexpr size_t most = 3;
  std::vector<int32_t> steps;
  while (steps.size() < most) {
    const int32_t n = uses.producer[static_cast<size_t>(id)];
    if (n < 0) return {};
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    if (!is_widening_step(node) || graph.type(node.outputs[0]).dtype != DType::f32) return {};
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

// The same steps again; no_value where there are none.
ValueId repeat_steps(const Graph& before, const std::vector<int32_t>& steps, Graph& graph) {
  ValueId last = no_value;
  for (const int32_t n : steps) {
    const Node& step = before.nodes[static_cast<size_t>(n)];
    std::vector<ValueId> inputs = step.inputs;
    for (ValueId& id : inputs)
      if (last != no_value && !is_one_element(before, id)) id = last;
    last = graph.add(step.op, inputs, before.value(step.outputs[0]).name, step.sources);
  }
  return last;
}

// Of each node whether it may be in the epilogue of a product of bytes: elementwise operators on its result, each the
// only reader of the one before.
std::vector<bool> behind_byte_contractions(const Graph& graph, const Uses& uses) {
  std::vector<bool> is_behind(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!is_elementwise(node)) continue;
    is_behind[n] = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      const int32_t p = uses.producer[static_cast<size_t>(id)];
      if (p < 0 || !uses.single(id) || graph.shape(id) != graph.shape(node.outputs[0])) return false;
      return is_behind[static_cast<size_t>(p)] || ops::is_byte_contraction(graph.nodes[static_cast<size_t>(p)].op);
    });
  }
  return is_behind;
}

// Whether all readers of a value compute elements of its shape as they read, so that nobody needs it in memory.
bool is_only_computed_with(const Graph& graph, const Uses& uses, ValueId id) {
  const std::vector<int32_t>& readers = uses.readers[static_cast<size_t>(id)];
  return !uses.is_output[static_cast<size_t>(id)] && std::all_of(readers.begin(), readers.end(), [&](int32_t n) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    return takes_steps(graph, node) || (is_elementwise(node) && graph.shape(node.outputs[0]) == graph.shape(id));
  });
}

}  // namespace

void repeat_widening(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  const Graph before = graph;
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  for (Node& node : nodes) {
    if (takes_steps(before, node) && !uses.single(node.inputs[0])) {
      const ValueId own = repeat_steps(before, widening_of(before, uses, node.inputs[0]), graph);
      if (own != no_value) node.inputs[0] = own;
    }
    graph.nodes.push_back(std::move(node));
  }
}

void repeat_residual_widening(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  const Graph before = graph;
  const std::vector<bool> is_behind = behind_byte_contractions(before, uses);
  // The steps of values that residuals have of their own; empty where they do not.
  std::map<ValueId, std::vector<int32_t>> widenings;
  const auto widening = [&](ValueId id) -> const std::vector<int32_t>& {
    const auto [at, is_new] = widenings.try_emplace(id);
    if (is_new) {
      std::vector<int32_t> steps = widening_of(before, uses, id);
      if (!steps.empty() && is_only_computed_with(before, uses, id)) at->second = std::move(steps);
    }
    return at->second;
  };
  graph.nodes.clear();
  for (size_t n = 0; n < before.nodes.size(); ++n) {
    Node node = before.nodes[n];
    if (is_behind[n] && node.inputs.size() == 2) {
      for (ValueId& id : node.inputs) {
        const std::vector<int32_t>& readers = uses.readers[static_cast<size_t>(id)];
        // The first of all keeps what is there.
        if (readers.size() < 2 || readers.front() == static_cast<int32_t>(n)) continue;
        const ValueId own = repeat_steps(before, widening(id), graph);
        if (own != no_value) id = own;
      }
    }
    graph.nodes.push_back(std::move(node));
  }
}

}  // namespace camshaft
