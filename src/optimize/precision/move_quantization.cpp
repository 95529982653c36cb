#include "optimize/precision/move_quantization.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/quantized.h"

namespace camshaft {

namespace {

// Elements of the result are elements of the operands of its type, and kernels have it for steps. Pointwise operators
// are part of what reads or writes the tensor anyway.
bool moves_steps(const Op& op) {
  return op.selects() && (op.traits().kind == OpKind::move || op.as<ops::Pool>() != nullptr);
}

class Mover {
 public:
  explicit Mover(Graph& graph) : graph_(graph), uses_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    for (Node& node : rewriter_.nodes()) {
      rewriter_.resolve(node);
      for (Graph& body : node.bodies) Mover(body).run();
      ValueId moved = no_value;
      if (const auto* quantize = node.op.as<ops::Quantize>()) moved = before_moves(node, *quantize);
      if (moves_steps(node.op) && node.outputs.size() == 1) moved = behind(node);
      if (moved == no_value && node.op.as<ops::Gather>()) moved = gathered_rows(node);
      if (moved == no_value) {
        rewriter_.keep(std::move(node));
        continue;
      }
      const ValueId old = node.outputs[0];
      is_single_[moved] = uses_.single(old);
      rewriter_.replace(old, moved);
    }
    rewriter_.finish();
  }

 private:
  // One scale, a positive number, of which no step is infinite.
  bool increases(const QuantizationParameters& parameters) const {
    constexpr double most_steps = 1 << 17;
    const auto scale = uniform_constant(graph_, parameters.scale);
    return is_per_tensor(graph_, parameters) && scale && *scale > 0 &&
           *scale < std::numeric_limits<float>::max() / most_steps &&
           (parameters.zero == no_value || is_readable_constant(graph_, parameters.zero));
  }

  bool is_data(const Node& node, size_t i) const {
    const ValueId id = node.inputs[i];
    return id != no_value && graph_.type(id).dtype == graph_.type(node.outputs[0]).dtype;
  }

  // The node on steps and a Dequantize behind it, where all of its data are steps of the same parameters.
  ValueId behind(const Node& node) {
    if (graph_.type(node.outputs[0]).dtype != DType::f32) return no_value;
    std::optional<Steps> first;
    std::vector<ValueId> inputs = node.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!is_data(node, i)) continue;
      const auto operand = dequantized(graph_, producers_, inputs[i]);
      if (!operand || !increases(operand->parameters)) return no_value;
      if (first && (!are_equal(graph_, first->parameters, operand->parameters) ||
                    graph_.type(first->steps).dtype != graph_.type(operand->steps).dtype))
        return no_value;
      if (!first) first = operand;
      inputs[i] = operand->steps;
    }
    if (!first || graph_.type(first->steps).dtype == DType::i32) return no_value;
    const std::string name = graph_.value(node.outputs[0]).name;
    const ValueId steps = graph_.add(node.op, std::move(inputs), name + ".steps", node.sources);
    std::vector<ValueId> operands{steps, first->parameters.scale};
    if (first->parameters.zero != no_value) operands.push_back(first->parameters.zero);
    return graph_.add(ops::Dequantize{}, std::move(operands), name, node.sources);
  }

  // Rows of a constant table whose rows have scales of their own: the table's steps are gathered, and its scales. The
  // table itself would be a constant of f32.
  ValueId gathered_rows(const Node& node) {
    const auto table = dequantized(graph_, producers_, node.inputs[0]);
    if (!table || node.op.as<ops::Gather>()->axis != 0 || !is_readable_constant(graph_, table->steps)) return no_value;
    const auto [scale, zero, axis] = table->parameters;
    const auto is_vector = [&](ValueId id) { return id == no_value || graph_.shape(id).size() == 1; };
    if (axis != 0 || !is_vector(scale) || !is_vector(zero)) return no_value;
    const ValueId indices = node.inputs[1];
    Shape shape = graph_.shape(indices);
    shape.resize(shape.size() + graph_.shape(table->steps).size() - 1, Dim(1));
    const std::string name = graph_.value(node.outputs[0]).name;
    const auto add = [&](Op op, std::vector<ValueId> inputs, const char* suffix) {
      return graph_.add(std::move(op), std::move(inputs), name + suffix, node.sources);
    };
    const auto of_rows = [&](ValueId id, const char* suffix) {
      return add(ops::Reshape{shape}, {add(node.op, {id, indices}, suffix)}, suffix);
    };
    ValueId steps = add(ops::Cast{DType::f32}, {add(node.op, {table->steps, indices}, ".steps")}, ".steps");
    if (zero != no_value)
      steps = add(ops::Pointwise{ScalarFunction::sub},
                  {steps, add(ops::Cast{DType::f32}, {of_rows(zero, ".zero")}, ".zero")}, ".steps");
    return add(ops::Pointwise{ScalarFunction::mul}, {steps, of_rows(scale, ".scale")}, "");
  }

  // What the Quantize gives, from before the moves that only it reads; no_value where there are none.
  ValueId before_moves(const Node& node, const ops::Quantize& op) {
    const QuantizationParameters parameters{node.inputs[1], node.inputs.size() > 2 ? node.inputs[2] : no_value};
    if (op.block != 0 || !is_integer(op.dtype) || op.precision != DType::f32 || !increases(parameters) ||
        graph_.type(node.inputs[0]).dtype != DType::f32 || is_attention_behind_moves(node.inputs[0]))
      return no_value;
    return quantized(node.inputs[0], node, op, parameters, true);
  }

  // A product of two activations that are no steps, behind moves: attention's, whose kernel writes its result where
  // they would put it. What quantises it before them would leave them to a step of their own.
  bool is_attention_behind_moves(ValueId x) {
    const Node* found = producers_.find(x);
    while (found && moves_steps(found->op) && found->inputs.size() == 1) found = producers_.find(found->inputs[0]);
    if (!found || !found->op.as<ops::MatMul>()) return false;
    return std::none_of(found->inputs.begin(), found->inputs.end(),
                        [&](ValueId id) { return graph_.is_constant(id) || dequantized(graph_, producers_, id); });
  }

  ValueId quantized(ValueId x, const Node& node, const ops::Quantize& op, const QuantizationParameters& parameters,
                    bool is_first) {
    if (const auto steps = dequantized(graph_, producers_, x);
        steps && graph_.type(steps->steps).dtype == op.dtype && are_equal(graph_, steps->parameters, parameters))
      return steps->steps;
    const Node* found = producers_.find(x);
    if (found && found->outputs.size() == 1 && moves_steps(found->op) && is_read_once(x)) {
      const Node move = *found;
      std::vector<ValueId> inputs = move.inputs;
      for (size_t i = 0; i < inputs.size(); ++i)
        if (is_data(move, i)) inputs[i] = quantized(inputs[i], node, op, parameters, false);
      return graph_.add(move.op, std::move(inputs), graph_.value(x).name + ".steps", move.sources);
    }
    if (is_first) return no_value;
    std::vector<ValueId> operands = node.inputs;
    operands[0] = x;
    return graph_.add(op, std::move(operands), graph_.value(x).name + ".steps", node.sources);
  }

  bool is_read_once(ValueId id) const {
    const auto made = is_single_.find(id);
    return made != is_single_.end() ? made->second : static_cast<size_t>(id) < uses_.readers.size() && uses_.single(id);
  }

  Graph& graph_;
  const Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
  std::unordered_map<ValueId, bool> is_single_;  // of values that took another's place
};

}  // namespace

void move_quantization(Graph& graph, const PassContext&) {
  Mover(graph).run();
}

}  // namespace camshaft
