#include "optimize/edit/shared_epilogue.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "ir/ops/pointwise.h"
#include "optimize/analysis/fusion_notes.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

std::optional<EpilogueStep> as_step(const Graph& graph, const Node& node, const std::map<ValueId, size_t>& results,
                                    const TensorType& type) {
  if (!node.op.as<ops::Pointwise>() || !(graph.type(node.outputs[0]) == type)) return std::nullopt;
  EpilogueStep step{node.op, {}};
  for (const ValueId id : node.inputs) {
    EpilogueOperand operand;
    operand.constant = id;
    if (const auto at = results.find(id); at != results.end()) {
      operand.result = at->second;
    } else if (id == no_value || graph.type(id).dtype != type.dtype) {
      return std::nullopt;
    } else if (const auto number = is_one_element(graph, id) ? uniform_constant(graph, id) : std::nullopt) {
      operand.kind = EpilogueOperand::Kind::number;
      operand.number = std::bit_cast<uint64_t>(*number);
    } else if (is_of_columns(graph, id, type)) {
      operand.kind = EpilogueOperand::Kind::columns;
    } else {
      return std::nullopt;
    }
    step.operands.push_back(operand);
  }
  return step;
}

}  // namespace

bool is_of_columns(const Graph& graph, ValueId id, const TensorType& type) {
  if (!is_readable_constant(graph, id) || graph.type(id).dtype != type.dtype) return false;
  const Tensor& t = *graph.value(id).constant;
  return !t.dims().empty() && Dim(t.dims().back()) == type.shape.back() && t.size() == t.dims().back();
}

SharedEpilogue shared_epilogue(const Graph& graph, const Uses& uses, ValueId first) {
  SharedEpilogue taken{{}, {}, first}, good = taken;
  std::map<ValueId, size_t> results{{first, 0}};
  std::map<ValueId, size_t> open;  // readers that are not inside
  std::set<int32_t> waiting;
  const auto take = [&](ValueId id) {
    const auto& readers = uses.readers[static_cast<size_t>(id)];
    open[id] = readers.size();
    waiting.insert(readers.begin(), readers.end());
    return !uses.is_output[static_cast<size_t>(id)];
  };
  for (bool growing = take(first); growing && !waiting.empty() && taken.steps.size() + 1 < max_epilogue_nodes;) {
    const int32_t n = *waiting.begin();
    waiting.erase(waiting.begin());
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    const auto step = as_step(graph, node, results, graph.type(first));
    if (!step) break;
    for (const ValueId id : node.inputs)
      if (const auto at = open.find(id); at != open.end() && --at->second == 0) open.erase(at);
    taken.steps.push_back(*step);
    taken.nodes.push_back(n);
    taken.result = node.outputs[0];
    results[taken.result] = taken.steps.size();
    growing = take(taken.result);
    if (open.size() == 1) good = taken;
  }
  return good;
}

}  // namespace camshaft
