#include "optimize/analysis/score_path.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

using F = ScalarFunction;
using Kind = ScoreStep::Kind;

bool search(const Graph& graph, const Uses& uses, ValueId id, std::vector<int32_t>& steps) {
  constexpr size_t most_steps = 64;  // each branch keeps a copy of its steps
  while (steps.size() < most_steps) {
    const int32_t n = id == no_value ? -1 : uses.producer[static_cast<size_t>(id)];
    if (n < 0 || !uses.single(id) || graph.type(id).dtype != DType::f32) return false;
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    if (node.op.as<ops::MatMul>()) {
      steps.push_back(n);
      return true;
    }
    if (only_reshapes(node) || node.op.as<ops::Transpose>()) {
      steps.push_back(n);
      id = node.inputs[0];
      continue;
    }
    if (!node.op.as<ops::Pointwise>()) return false;
    for (const ValueId operand : node.inputs) {
      if (graph.is_constant(operand) || graph.type(operand) != graph.type(id)) continue;
      std::vector<int32_t> further = steps;
      further.push_back(n);
      if (!search(graph, uses, operand, further)) continue;
      steps = std::move(further);
      return true;
    }
    return false;
  }
  return false;
}

// A number for each of the batches of the scores.
bool is_by_head(const Graph& graph, ValueId id) {
  const Shape& shape = graph.shape(id);
  return graph.is_constant(id) && shape.size() > 2 && shape.back() == Dim(1) && shape[shape.size() - 2] == Dim(1);
}

std::optional<ScoreStep> with_operand(const Graph& graph, F function, bool scores_first, ValueId operand) {
  const auto c = uniform_constant(graph, operand);
  switch (function) {
    case F::mul:
      if (c) return ScoreStep{Kind::scale, *c};
      return is_by_head(graph, operand) ? std::optional(ScoreStep{Kind::scale_by_head, 1, operand}) : std::nullopt;
    case F::div:
      return c && *c != 0 && scores_first ? std::optional(ScoreStep{Kind::scale, 1 / *c}) : std::nullopt;
    case F::add:
      // A mask that hides nothing: the softmax does not see the sign of 0.
      return c == 0.0 ? ScoreStep{} : ScoreStep{Kind::add, 1, operand};
    case F::sub:
      return scores_first ? std::optional(ScoreStep{Kind::add, -1, operand}) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

bool only_reshapes(const Node& node) {
  return node.op.as<ops::Reshape>() && node.inputs.size() == 1;
}

std::vector<int32_t> score_path(const Graph& graph, const Uses& uses, ValueId softmax_input) {
  std::vector<int32_t> steps;
  if (!search(graph, uses, softmax_input, steps)) return {};
  std::reverse(steps.begin(), steps.end());
  return steps;
}

std::optional<ScoreStep> score_step(const Graph& graph, const Node& node, ValueId scores) {
  const auto* op = node.op.as<ops::Pointwise>();
  if (!op || std::count(node.inputs.begin(), node.inputs.end(), scores) != 1) return std::nullopt;
  if (op->function == F::tanh) return ScoreStep{Kind::tanh};
  if (node.inputs.size() == 2) {
    const bool first = node.inputs[0] == scores;
    return with_operand(graph, op->function, first, node.inputs[first ? 1 : 0]);
  }
  if (op->function != F::select || node.inputs[0] == scores) return std::nullopt;
  const bool inverted = node.inputs[2] == scores;
  const auto masked = uniform_constant(graph, node.inputs[inverted ? 1 : 2]);
  if (!masked) return std::nullopt;
  return ScoreStep{Kind::keep, 1, node.inputs[0], inverted, *masked};
}

}  // namespace camshaft
