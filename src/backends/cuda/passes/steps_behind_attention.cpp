#include "backends/cuda/passes/steps_behind_attention.h"

#include "backends/cuda/codegen/attention_text.h"
#include "backends/cuda/passes/quantises.h"
#include "ir/ops/attention.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// The attention and what the other node does, in the place of that.
Node joined(Graph& graph, const Node& attention, const Node& last) {
  RegionEditor made = RegionEditor::around(graph, attention, ops::RegionKind::attention);
  const ValueId between = attention.outputs[0];
  const ValueId steps = append_steps(made, graph, last, made.inner_result(between));
  made.move_result(between, last.outputs[0]);
  made.replace_result(last.outputs[0], steps);
  made.set_sources(merged_sources(attention.sources, last.sources));
  return made.finish();
}

}  // namespace

void steps_behind_attention(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  bool changed = false;
  for (Node& node : graph.nodes) {
    if (!quantises(graph, node)) continue;
    const int32_t p = uses.producer[static_cast<size_t>(node.inputs[0])];
    if (p < 0 || !uses.single(node.inputs[0])) continue;
    const Node& producer = graph.nodes[static_cast<size_t>(p)];
    const auto* attention = producer.op.as<ops::Attention>();
    if (!attention || !cuda::has_attention_text(*attention)) continue;
    node = joined(graph, producer, node);
    changed = true;
  }
  if (changed) remove_dead(graph);  // the attentions alone, which nobody reads
}

}  // namespace camshaft
