#include "optimize/precision/widen_quantized_halves.h"

#include <algorithm>

#include "ir/ops/quantize.h"
#include "optimize/precision/widen_narrow_floats.h"

namespace camshaft {

namespace {

bool is_of_halves(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

// What is computed, not weights alone.
bool quantizes_halves(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    const bool is_quantize = node.op.as<ops::Quantize>() && !graph.is_constant(node.inputs[0]);
    return (is_quantize && is_of_halves(graph.type(node.inputs[0]).dtype)) ||
           std::any_of(node.bodies.begin(), node.bodies.end(), quantizes_halves);
  });
}

}  // namespace

void widen_quantized_halves(Graph& graph, const PassContext& context) {
  if (quantizes_halves(graph)) widen_narrow_floats(graph, context);
}

}  // namespace camshaft
