#include "backends/cuda/passes/join_transposes.h"

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/region_editor.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

constexpr int64_t few = 8;

bool has_few(const Dim& size) {
  const auto constant = size.as_constant();
  return constant && *constant <= few;
}

bool is_pointwise(const Node& node) {
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  if (node.op.as<ops::Cast>()) return true;
  const auto* region = node.op.as<ops::Region>();
  if (!region || region->kind != ops::RegionKind::pointwise) return false;
  for (const Node& inner : node.bodies[0].nodes)
    if (!inner.op.as<ops::Pointwise>() && !inner.op.as<ops::Cast>()) return false;
  return true;
}

// The transpose, then what the other node does, under the name and in the place of `last`.
Node joined(Graph& graph, const ops::Transpose& transpose, const Node& other, ValueId x, const Node& last) {
  RegionEditor made = RegionEditor::around(graph, other, ops::RegionKind::pointwise);
  made.replace_operand(other.inputs[0], x);
  made.prepend(ops::Transpose(transpose), made.inner(x), graph.value(x).name);
  made.move_result(other.outputs[0], last.outputs[0]);
  made.set_sources(last.sources);
  return made.finish();
}

}  // namespace

void join_transposes(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  std::vector<bool> gone(graph.nodes.size());
  bool changed = false;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& last = graph.nodes[n];
    const bool turns = last.op.as<ops::Transpose>() != nullptr;
    if ((!turns && !is_pointwise(last)) || last.inputs[0] == no_value) continue;
    const int32_t p = uses.producer[static_cast<size_t>(last.inputs[0])];
    if (p < 0 || gone[static_cast<size_t>(p)] || !uses.single(last.inputs[0])) continue;
    const Node& first = graph.nodes[static_cast<size_t>(p)];
    const auto* transpose = (turns ? last : first).op.as<ops::Transpose>();
    const Node& other = turns ? first : last;
    if (!transpose || !is_pointwise(other)) continue;
    const Shape &in = graph.shape(first.inputs[0]), &out = graph.shape(last.outputs[0]);
    // What broadcasts within the other would broadcast along other axes.
    if (graph.shape(other.inputs[0]) != graph.shape(other.outputs[0]) || out.empty() || in.size() != out.size())
      continue;
    if (!has_few(in.back()) && !has_few(out.back())) continue;
    if (!other.bodies.empty()) {
      bool numbers_only = true;
      for (const Value& value : other.bodies[0].values)
        numbers_only = numbers_only && (!value.constant || value.constant->size() == 1);
      if (!numbers_only) continue;
    }
    last = joined(graph, *transpose, other, first.inputs[0], Node{last.op, {}, last.outputs, {}, last.sources});
    gone[static_cast<size_t>(p)] = changed = true;
  }
  if (changed) remove_dead(graph);  // the first of two, which nobody reads
}

}  // namespace camshaft
