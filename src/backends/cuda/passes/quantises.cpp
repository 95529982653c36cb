#include "backends/cuda/passes/quantises.h"

#include <algorithm>

#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"

namespace camshaft {

namespace {

bool is_step(const Node& node) {
  return node.op.as<ops::Pointwise>() || node.op.as<ops::Cast>();
}

}  // namespace

bool quantises(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  const TensorType& result = graph.type(node.outputs[0]);
  if ((result.dtype != DType::i8 && result.dtype != DType::u8) || graph.shape(node.inputs[0]) != result.shape)
    return false;
  const auto* region = node.op.as<ops::Region>();
  if (!region) return node.op.as<ops::Cast>() != nullptr;
  if (region->kind != ops::RegionKind::pointwise) return false;
  const Graph& body = node.bodies[0];
  return std::all_of(body.nodes.begin(), body.nodes.end(), is_step) &&
         std::all_of(body.values.begin(), body.values.end(),
                     [](const Value& value) { return !value.constant || value.constant->size() == 1; });
}

ValueId append_steps(RegionEditor& region, const Graph& graph, const Node& node, ValueId inner) {
  const Graph* body = node.bodies.empty() ? nullptr : &node.bodies[0];
  std::map<ValueId, ValueId> there{{body ? body->inputs[0] : node.inputs[0], inner}};
  if (!body) return region.copy_node(graph, node, there).at(0);
  for (const Node& step : body->nodes) region.copy_node(*body, step, there);
  return there.at(body->outputs[0]);
}

}  // namespace camshaft
