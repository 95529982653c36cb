#include "optimize/analysis/quantized.h"

#include <cstring>

#include "ir/replaceable.h"

namespace camshaft {

namespace {

bool is_same(const Graph& graph, ValueId a, ValueId b) {
  if (a == b) return true;
  if (a == no_value || b == no_value || !is_readable_constant(graph, a) || !is_readable_constant(graph, b))
    return false;
  for (const ValueId id : {a, b}) fix_numbers(graph, id, "steps of two tensors are compared");
  const Tensor &x = *graph.value(a).constant, &y = *graph.value(b).constant;
  return x.dtype() == y.dtype() && x.dims() == y.dims() && std::memcmp(x.data(), y.data(), x.bytes()) == 0;
}

}  // namespace

std::optional<Steps> dequantized(const Graph& graph, Producers& producers, ValueId id) {
  const auto* op = producers.op<ops::Dequantize>(id);
  if (!op || op->dtype != DType::f32 || op->block != 0) return std::nullopt;
  const Node& node = *producers.find(id);
  if (graph.type(node.inputs[1]).dtype != DType::f32) return std::nullopt;
  return Steps{node.inputs[0], {node.inputs[1], node.inputs.size() > 2 ? node.inputs[2] : no_value, op->axis}};
}

bool is_per_tensor(const Graph& graph, const QuantizationParameters& parameters) {
  const auto is_number = [&](ValueId id) { return id == no_value || graph.shape(id).empty(); };
  return is_number(parameters.scale) && is_number(parameters.zero);
}

bool are_equal(const Graph& graph, const QuantizationParameters& a, const QuantizationParameters& b) {
  const bool same_axis = a.axis == b.axis || (is_per_tensor(graph, a) && is_per_tensor(graph, b));
  return same_axis && is_same(graph, a.scale, b.scale) && is_same(graph, a.zero, b.zero);
}

}  // namespace camshaft
