#include "optimize/layout/nest_concats.h"

#include <map>
#include <utility>

#include "ir/ops/move.h"

namespace camshaft {

namespace {

// Of longer lists the prefixes are not looked up: that would be quadratic work for a pattern nobody builds.
constexpr size_t max_operands = 256;

}  // namespace

void nest_concats(Graph& graph, const PassContext&) {
  std::map<std::pair<int64_t, std::vector<ValueId>>, ValueId> joined;  // axis and operands → result
  for (Node& node : graph.nodes) {
    const auto* op = node.op.as<ops::Concat>();
    if (!op || node.inputs.size() < 2 || node.inputs.size() > max_operands) continue;
    const std::vector<ValueId> operands = node.inputs;
    for (size_t count = operands.size() - 1; count >= 2; --count) {
      const auto begin = operands.begin(), end = begin + static_cast<int64_t>(count);
      const auto earlier = joined.find({op->axis, {begin, end}});
      if (earlier == joined.end()) continue;
      Node nested = node;
      nested.inputs = {earlier->second};
      nested.inputs.insert(nested.inputs.end(), end, operands.end());
      // Operands that are left out may have been the ones that gave another axis its known size.
      if (!(infer(graph, nested)[0].type == graph.type(node.outputs[0]))) continue;
      node.inputs = std::move(nested.inputs);
      break;
    }
    joined.try_emplace({op->axis, operands}, node.outputs[0]);
  }
}

}  // namespace camshaft
