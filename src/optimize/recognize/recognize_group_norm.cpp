#include "optimize/recognize/recognize_group_norm.h"

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

class GroupNormRecognizer {
 public:
  GroupNormRecognizer(Graph& graph, ThreadPool& pool)
      : graph_(graph), pool_(pool), uses_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node, const std::vector<ValueId>& old_inputs) {
      if (node.op.as<ops::Reshape>()) return merge_reshapes(node);
      const auto* op = node.op.as<ops::Pointwise>();
      return op ? take_operand(op->function, node, old_inputs) : no_value;
    });
  }

 private:
  bool is_neutral(const Node& norm, size_t input, double value) const {
    return norm.inputs.size() <= input || norm.inputs[input] == no_value ||
           uniform_constant(graph_, norm.inputs[input]) == value;
  }

  // [n, c, …] → [n, g, …] → norm → [n, c, …]: groups of g are groups of c, because neighbours stay neighbours.
  ValueId merge_reshapes(const Node& node) {
    if (node.inputs.size() != 1 || !producers_.op<ops::GroupNorm>(node.inputs[0])) return no_value;
    const Node& norm = *producers_.find(node.inputs[0]);
    ops::GroupNorm op = *norm.op.as<ops::GroupNorm>();
    if (op.channels_last || !is_neutral(norm, 1, 1) || !is_neutral(norm, 2, 0)) return no_value;
    const ValueId inner = norm.inputs[0];
    if (!producers_.op<ops::Reshape>(inner) || producers_.find(inner)->inputs.size() != 1) return no_value;
    const ValueId x = producers_.find(inner)->inputs[0];
    const Shape &outside = graph_.shape(x), &inside = graph_.shape(inner);
    if (graph_.type(x) != graph_.type(node.outputs[0]) || outside.size() < 3 || !(outside[0] == inside[0]))
      return no_value;
    const auto channels = outside[1].as_constant();
    if (!channels || *channels % op.groups != 0) return no_value;
    const auto sources = merged_sources(norm.sources, node.sources);
    return graph_.add(op, {x}, graph_.value(node.outputs[0]).name, sources);
  }

  ValueId take_operand(ScalarFunction function, const Node& node, const std::vector<ValueId>& old_inputs) {
    if (function != ScalarFunction::mul && function != ScalarFunction::add) return no_value;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId x = node.inputs[i];
      if (!producers_.op<ops::GroupNorm>(x) || !uses_.single(old_inputs[i])) continue;
      if (graph_.type(x) != graph_.type(node.outputs[0])) continue;
      const Node norm = *producers_.find(x);
      std::vector<ValueId> inputs = norm.inputs;
      inputs.resize(3, no_value);
      // A shift is added after the scale.
      const size_t slot = function == ScalarFunction::mul ? 1 : 2;
      if (inputs[slot] != no_value || inputs[2] != no_value) continue;
      inputs[slot] = per_channel(node.inputs[1 - i], graph_.type(x), norm.op.as<ops::GroupNorm>()->channels_last);
      if (inputs[slot] == no_value) continue;
      while (inputs.back() == no_value) inputs.pop_back();
      return graph_.add(norm.op, inputs, graph_.value(node.outputs[0]).name,
                        merged_sources(norm.sources, node.sources));
    }
    return no_value;
  }

  // A constant that holds one number a channel, as a vector.
  ValueId per_channel(ValueId id, const TensorType& type, bool channels_last) {
    if (!is_readable_constant(graph_, id)) return no_value;
    const Tensor& t = *graph_.value(id).constant;
    const size_t rank = type.shape.size(), axis = channels_last ? rank - 1 : 1;
    const auto channels = type.shape[axis].as_constant();
    if (!channels || t.size() != *channels || t.dims().size() + axis < rank || t.dims().size() > rank) return no_value;
    if (t.dims()[t.dims().size() + axis - rank] != *channels) return no_value;
    return graph_.add_constant(graph_.value(id).name, derive_reshaped(graph_.constant(id), {*channels}, pool_));
  }

  Graph& graph_;
  ThreadPool& pool_;
  Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void recognize_group_norm(Graph& graph, const PassContext& context) {
  GroupNormRecognizer(graph, context.pool).run();
}

}  // namespace camshaft
