#include "optimize/edit/append_node.h"

#include <string>

namespace camshaft {

std::vector<ValueId> append_node(const Graph& from, const Node& node, Graph& to, std::map<ValueId, ValueId>& there) {
  std::vector<ValueId> operands;
  for (const ValueId id : node.inputs) {
    if (id != no_value && !there.contains(id))
      there[id] = to.add_constant(from.value(id).name, from.value(id).constant);
    operands.push_back(id == no_value ? no_value : there.at(id));
  }
  std::vector<std::string> names;
  for (const ValueId id : node.outputs) names.push_back(from.value(id).name);
  const std::vector<ValueId> outputs = to.add_node(node.op, operands, names, node.sources, node.bodies);
  for (size_t o = 0; o < outputs.size(); ++o) there[node.outputs[o]] = outputs[o];
  return outputs;
}

}  // namespace camshaft
