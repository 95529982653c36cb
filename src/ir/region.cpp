#include "ir/region.h"

#include <algorithm>

#include "ir/ops/region.h"

namespace camshaft {

int32_t input_index(const Graph& body, ValueId inner) {
  const auto at = std::find(body.inputs.begin(), body.inputs.end(), inner);
  return at == body.inputs.end() ? -1 : static_cast<int32_t>(at - body.inputs.begin());
}

ValueId outer_operand(const Node& node, ValueId inner) {
  if (!node.op.as<ops::Region>()) return inner;
  const int32_t index = input_index(node.bodies[0], inner);
  return index < 0 ? no_value : node.inputs[static_cast<size_t>(index)];
}

bool reads(const Node& node, ValueId id) {
  return std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end();
}

const Node& first_operator(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  return region && region->kind == ops::RegionKind::contract ? node.bodies[0].nodes[0] : node;
}

ValueId sole_operand(const Node& node, size_t input) {
  const Node& first = first_operator(node);
  if (&first == &node) return node.inputs[input];
  const ValueId id = first.inputs[input];
  int64_t count = 0;
  for (const Node& inner : node.bodies[0].nodes) count += std::count(inner.inputs.begin(), inner.inputs.end(), id);
  return count == 1 ? outer_operand(node, id) : no_value;
}

std::vector<Node> open_region(const Node& region, const std::function<ValueId(const Value& inner)>& add_value) {
  const Graph& body = region.bodies.at(0);
  std::vector<ValueId> outer(body.values.size(), no_value);
  for (size_t i = 0; i < body.inputs.size(); ++i) outer[static_cast<size_t>(body.inputs[i])] = region.inputs[i];
  for (size_t o = 0; o < body.outputs.size(); ++o) outer[static_cast<size_t>(body.outputs[o])] = region.outputs[o];
  const auto outside = [&](ValueId id) {
    if (id == no_value) return no_value;
    ValueId& known = outer[static_cast<size_t>(id)];
    return known != no_value ? known : known = add_value(body.value(id));
  };
  std::vector<Node> nodes = body.nodes;
  for (Node& node : nodes) {
    for (ValueId& id : node.inputs) id = outside(id);
    for (ValueId& id : node.outputs) id = outside(id);
  }
  return nodes;
}

}  // namespace camshaft
