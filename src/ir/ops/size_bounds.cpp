#include "ir/ops/size_bounds.h"

#include <fmt/format.h>

#include "ir/ops/dynamic.h"
#include "ir/ops/move.h"
#include "ir/ops/select.h"
#include "ir/symbols.h"

namespace camshaft::ops {

SizeBounds::SizeBounds(const Graph& graph, const SymbolBindings& symbols) {
  for (const auto& [name, size] : symbols) known_.emplace(name, Dim(size));
  for (const Node& node : graph.nodes) note(graph, node);
}

std::optional<int64_t> SizeBounds::of(const Dim& size) const {
  return size.substitute(known_).upper_bound();
}

std::optional<int64_t> SizeBounds::elements(const Shape& shape) const {
  Dim count = 1;
  for (const Dim& size : shape) {
    const auto most = of(size);
    if (!most) return std::nullopt;
    count = count * Dim(*most);
  }
  return count.as_constant();
}

void SizeBounds::note(const Graph& graph, const Node& node) {
  bool is_fresh = false;
  for (const ValueId output : node.outputs)
    is_fresh = is_fresh || names_sizes_of(graph.value(output).name, graph.shape(output));
  if (!is_fresh) return;
  const std::string& first = graph.value(node.outputs[0]).name;
  const Shape& chosen_from = graph.shape(node.inputs[0]);
  const auto axis_of = [&](int64_t axis) { return of(chosen_from[static_cast<size_t>(axis)]); };
  if (node.op.as<NonZero>()) {
    note(first, 1, elements(chosen_from));
  } else if (const auto* unique = node.op.as<Unique>()) {
    if (unique->axis < 0)
      note(first, 0, elements(chosen_from));
    else
      note(first, static_cast<size_t>(unique->axis), axis_of(unique->axis));
  } else if (const auto* top = node.op.as<TopK>()) {
    note(first, static_cast<size_t>(top->axis), axis_of(top->axis));
  } else if (node.op.as<NonMaxSuppression>()) {
    // Of each class of each sample so many boxes, or all.
    Shape chosen = graph.shape(node.inputs[1]);
    const std::optional<std::vector<Dim>> most =
        node.inputs.size() > 2 && node.inputs[2] != no_value ? graph.value(node.inputs[2]).content : std::nullopt;
    if (most && most->size() == 1) chosen[2] = min(chosen[2], most->front());
    note(first, 0, elements(chosen));
  } else if (node.op.as<DynamicSlice>()) {
    for (size_t axis = 0; axis < chosen_from.size(); ++axis) note(first, axis, of(chosen_from[axis]));
  } else if (const auto* split = node.op.as<DynamicSplit>()) {
    for (const ValueId output : node.outputs)
      note(graph.value(output).name, static_cast<size_t>(split->axis), axis_of(split->axis));
  }
}

void SizeBounds::note(const std::string& value, size_t axis, std::optional<int64_t> most) {
  if (!most) return;
  const std::string name = fmt::format("@{}.{}", value, axis);
  known_.insert_or_assign(name, min(Dim::symbol(name), Dim(*most)));
}

}  // namespace camshaft::ops
