#include "optimize/fuse/repeat_widening.h"

#include <map>
#include <optional>
#include <utility>

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

// Where elementwise operators end that follow each other from node `n` on, each the only reader of the one before.
int32_t end_of_steps(const Graph& graph, const Uses& uses, int32_t n) {
  for (;;) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    if (!is_elementwise(node) || !uses.single(node.outputs[0])) return n;
    const int32_t next = uses.readers[static_cast<size_t>(node.outputs[0])][0];
    if (!is_elementwise(graph.nodes[static_cast<size_t>(next)])) return n;
    n = next;
  }
}

// The widenings that readers are given of their own.
class Repetitions {
 public:
  Repetitions(const Graph& before, Graph& graph) : before_(before), uses_(before), graph_(graph) {}

  /// What node `n` is to read in place of input `id`.
  ValueId for_reader(int32_t n, ValueId id) {
    if (uses_.single(id) || steps_of(id).empty()) return id;
    const std::optional<int32_t> whose = owner(n, id);
    if (!whose) return id;
    const auto [at, added] = repeated_.try_emplace({id, *whose}, id);
    if (!added) return at->second;
    ValueId last = no_value;
    for (const int32_t step_node : steps_of(id)) {
      const Node& step = before_.nodes[static_cast<size_t>(step_node)];
      std::vector<ValueId> inputs = step.inputs;
      for (ValueId& input : inputs)
        if (last != no_value && !is_one_element(before_, input)) input = last;
      last = graph_.add(step.op, inputs, before_.value(step.outputs[0]).name, step.sources);
    }
    return at->second = last;
  }

 private:
  // The steps that widen a value.
  const std::vector<int32_t>& steps_of(ValueId id) {
    const auto [at, added] = widenings_.try_emplace(id);
    if (added && uses_.producer[static_cast<size_t>(id)] >= 0) at->second = widening_of(before_, uses_, id);
    return at->second;
  }

  // The readers that share a widening of their own, by one of them; none: they keep the common one.
  std::optional<int32_t> owner(int32_t n, ValueId id) const {
    const auto node = [&](int32_t i) -> const Node& { return before_.nodes[static_cast<size_t>(i)]; };
    if (takes_steps(before_, node(n)) && node(n).inputs[0] == id) return n;
    if (!is_elementwise(node(n)) || uses_.is_output[static_cast<size_t>(id)]) return std::nullopt;
    std::optional<int32_t> first;
    for (const int32_t reader : uses_.readers[static_cast<size_t>(id)]) {
      if (takes_steps(before_, node(reader))) continue;
      // Somebody needs f32 all the same.
      if (!is_elementwise(node(reader))) return std::nullopt;
      if (!first) first = end_of_steps(before_, uses_, reader);
    }
    const int32_t end = end_of_steps(before_, uses_, n);
    return end == first ? std::nullopt : std::optional(end);
  }

  const Graph& before_;
  const Uses uses_;
  Graph& graph_;
  std::map<ValueId, std::vector<int32_t>> widenings_;
  std::map<std::pair<ValueId, int32_t>, ValueId> repeated_;
};

}  // namespace

void repeat_widening(Graph& graph, const PassContext&) {
  const Graph before = graph;
  graph.nodes.clear();
  Repetitions repetitions(before, graph);
  for (size_t n = 0; n < before.nodes.size(); ++n) {
    Node node = before.nodes[n];
    for (ValueId& id : node.inputs)
      if (id != no_value) id = repetitions.for_reader(static_cast<int32_t>(n), id);
    graph.nodes.push_back(std::move(node));
  }
}

}  // namespace camshaft
