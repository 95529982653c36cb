#include "compile/tune/model_bytes.h"

#include <algorithm>

#include "compile/lower.h"
#include "compile/plan/bound_plan.h"
#include "compile/tune/contestant.h"

namespace camshaft {

namespace {

size_t constant_bytes(const Value& value) {
  return value.constant && !value.constant->is_elided() && !holds_objects(value.type.dtype) ? value.constant->bytes()
                                                                                            : 0;
}

size_t activation_bytes(const RegionView& region) {
  const auto shapes = measured_shapes(region, 1);
  if (!shapes) return 0;
  size_t bytes = 0;
  for (size_t i = 0; i < shapes->inputs.size(); ++i)
    if (region.node.inputs[i] != no_value && !region.graph.is_constant(region.node.inputs[i]))
      bytes += operand_bytes(shapes->inputs[i].dtype, shapes->inputs[i].dims);
  for (const OperandShape& shape : shapes->outputs) bytes += operand_bytes(shape.dtype, shape.dims);
  return bytes;
}

}  // namespace

ModelBytes model_bytes(const Graph& graph, const SymbolBindings& symbols) {
  ModelBytes bytes;
  for (const Value& value : graph.values) bytes.weights += constant_bytes(value);
  for (const Node& node : graph.nodes)
    if (!is_view(node) && !is_conditional(node))
      bytes.activations = std::max(bytes.activations, activation_bytes({graph, node, symbols}));
  return bytes;
}

size_t weight_bytes(const RegionView& region) {
  size_t bytes = 0;
  for (const ValueId id : region.node.inputs)
    if (id != no_value) bytes += constant_bytes(region.graph.value(id));
  return bytes;
}

}  // namespace camshaft
