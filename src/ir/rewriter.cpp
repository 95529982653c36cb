#include "ir/rewriter.h"

namespace camshaft {

Rewriter::Rewriter(Graph& graph) : graph_(graph), old_nodes_(std::move(graph.nodes)), old_values_(graph.values.size()) {
  graph_.nodes.clear();
}

ValueId Rewriter::resolve(ValueId id) const {
  // Chains form when a replacement is itself replaced later; values added by the pass have no entry.
  while (id != no_value && static_cast<size_t>(id) < replacement_.size() &&
         replacement_[static_cast<size_t>(id)] != no_value)
    id = replacement_[static_cast<size_t>(id)];
  return id;
}

void Rewriter::resolve(Node& node) const {
  for (ValueId& id : node.inputs) id = resolve(id);
}

void Rewriter::keep(Node&& node) {
  const auto retyped = [&](ValueId id) {
    return id != no_value && static_cast<size_t>(id) < retyped_.size() && retyped_[static_cast<size_t>(id)];
  };
  bool infer_again = false;
  for (ValueId& id : node.inputs) {
    const ValueId now = resolve(id);
    infer_again = infer_again || now != id || retyped(now);
    id = now;
  }
  if (infer_again) {
    std::vector<Inferred> inferred = infer(graph_, node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Value& value = graph_.value(node.outputs[i]);
      if (value.type == inferred[i].type && value.content == inferred[i].content) continue;
      value.type = std::move(inferred[i].type);
      value.content = std::move(inferred[i].content);
      retyped_.resize(graph_.values.size(), false);
      retyped_[static_cast<size_t>(node.outputs[i])] = true;
    }
  }
  graph_.nodes.push_back(std::move(node));
}

void Rewriter::replace(ValueId old, ValueId replacement) {
  replacement = resolve(replacement);  // so that no chain leads back to itself
  if (old == replacement) return;
  if (replacement_.size() <= static_cast<size_t>(old)) replacement_.resize(graph_.values.size(), no_value);
  replacement_[static_cast<size_t>(old)] = replacement;
  changed_ = true;
  take_name(old, replacement);
}

void Rewriter::take_name(ValueId old, ValueId replacement) {
  const auto is_new = [&](ValueId id) { return static_cast<size_t>(id) >= old_values_; };
  if (is_new(old) || !is_new(replacement)) return;
  const size_t i = static_cast<size_t>(replacement) - old_values_;
  if (i >= took_a_name_.size()) took_a_name_.resize(i + 1, false);
  if (took_a_name_[i]) return;
  took_a_name_[i] = true;
  std::swap(graph_.value(old).name, graph_.value(replacement).name);
}

void Rewriter::finish() {
  for (ValueId& id : graph_.outputs) id = resolve(id);
  if (changed_ || graph_.nodes.size() != old_nodes_.size()) remove_dead(graph_);
}

}  // namespace camshaft
