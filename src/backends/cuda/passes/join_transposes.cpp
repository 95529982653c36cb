#include "backends/cuda/passes/join_transposes.h"

#include <map>

#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "optimize/analysis/match.h"
#include "optimize/edit/append_node.h"

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
  Graph body;
  const ValueId in = body.add_input(graph.value(x).name, graph.type(x));
  const ValueId turned = body.add(ops::Transpose(transpose), {in}, graph.value(x).name);
  const std::string& name = graph.value(last.outputs[0]).name;
  ValueId result = no_value;
  if (other.op.as<ops::Cast>()) {
    result = body.add(other.op, {turned}, name, other.sources);
  } else {
    const Graph& old = other.bodies[0];
    std::map<ValueId, ValueId> renamed{{old.inputs[0], turned}};
    for (const Node& inner : old.nodes) append_node(old, inner, body, renamed);
    result = renamed.at(old.outputs[0]);
  }
  body.add_output(name, result);
  Node made{ops::Region{ops::RegionKind::pointwise}, {x}, last.outputs, {}, last.sources};
  made.bodies.push_back(std::move(body));
  return made;
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
