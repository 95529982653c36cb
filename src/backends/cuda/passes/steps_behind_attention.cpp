#include "backends/cuda/passes/steps_behind_attention.h"

#include "backends/cuda/codegen/attention_text.h"
#include "backends/cuda/passes/quantises.h"
#include "ir/ops/attention.h"
#include "ir/ops/move.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// The node that computes a value which has one reader; null for an input or a constant, or where there are more.
Node* sole_producer(Graph& graph, const Uses& uses, ValueId id) {
  const int32_t p = uses.producer[static_cast<size_t>(id)];
  return p < 0 || !uses.single(id) ? nullptr : &graph.nodes[static_cast<size_t>(p)];
}

// The attention and what the other node does to its result. The bytes are `result`: a value of that node, or the
// attention's own, whose type changes.
Node joined(Graph& graph, const Node& attention, const Node& last, ValueId result) {
  RegionEditor made = RegionEditor::around(graph, attention, ops::RegionKind::attention);
  const ValueId rows = attention.outputs[0];
  const ValueId steps = append_steps(made, graph, last, made.inner_result(rows));
  if (result != rows) made.move_result(rows, result);
  made.replace_result(result, steps);
  made.set_sources(merged_sources(attention.sources, last.sources));
  return made.finish();
}

}  // namespace

void steps_behind_attention(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  bool changed = false;
  for (Node& node : graph.nodes) {
    if (!quantises(graph, node)) continue;
    Node* found = sole_producer(graph, uses, node.inputs[0]);
    const bool is_seen = found && found->op.as<ops::Reshape>();  // heads beside each other, as rows
    if (is_seen) found = sole_producer(graph, uses, found->inputs[0]);
    const auto* attention = found ? found->op.as<ops::Attention>() : nullptr;
    if (!attention || !cuda::has_attention_text(*attention)) continue;
    if (is_seen) {
      *found = joined(graph, *found, node, found->outputs[0]);
      node = {ops::Reshape{graph.shape(node.outputs[0])}, {found->outputs[0]}, node.outputs, {}, {}};
    } else {
      node = joined(graph, *found, node, node.outputs[0]);
    }
    changed = true;
  }
  if (changed) remove_dead(graph);  // what nobody reads any more
}

}  // namespace camshaft
