#include "backends/cuda/passes/quantises.h"

#include <algorithm>

#include "ir/ops/float8.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"

namespace camshaft {

namespace {

bool is_step(const Node& node) {
  const auto* cast = node.op.as<ops::Cast>();
  return cast ? cast->saturate : node.op.as<ops::Pointwise>() != nullptr;
}

bool is_of_columns(const Graph& graph, ValueId id, const Shape& rows) {
  return graph.is_constant(id) && graph.type(id).dtype == DType::f32 && !rows.empty() &&
         graph.shape(id) == Shape{rows.back()};
}

bool makes_bytes(const Graph& graph, const Node& node, size_t most_inputs) {
  if (node.inputs.empty() || node.inputs.size() > most_inputs || node.outputs.size() != 1) return false;
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (!is_of_columns(graph, node.inputs[i], graph.shape(node.inputs[0]))) return false;
  const TensorType& result = graph.type(node.outputs[0]);
  if ((!is_byte(result.dtype) && !ops::is_float8(result.dtype)) || graph.shape(node.inputs[0]) != result.shape)
    return false;
  const auto* region = node.op.as<ops::Region>();
  if (!region) return is_step(node) && node.op.as<ops::Cast>();
  if (region->kind != ops::RegionKind::pointwise) return false;
  const Graph& body = node.bodies[0];
  return std::all_of(body.nodes.begin(), body.nodes.end(), is_step) &&
         std::all_of(body.values.begin(), body.values.end(),
                     [](const Value& value) { return !value.constant || value.constant->size() == 1; });
}

}  // namespace

bool quantises(const Graph& graph, const Node& node) {
  return makes_bytes(graph, node, 1);
}

bool quantises_columns(const Graph& graph, const Node& node) {
  return makes_bytes(graph, node, 2);
}

ValueId append_steps(RegionEditor& region, const Graph& graph, const Node& node, ValueId inner) {
  const Graph* body = node.bodies.empty() ? nullptr : &node.bodies[0];
  std::map<ValueId, ValueId> there{{body ? body->inputs[0] : node.inputs[0], inner}};
  for (size_t i = 1; i < node.inputs.size(); ++i) there[body->inputs[i]] = region.add_operand(node.inputs[i]);
  if (!body) return region.copy_node(graph, node, there).at(0);
  for (const Node& step : body->nodes) region.copy_node(*body, step, there);
  return there.at(body->outputs[0]);
}

}  // namespace camshaft
