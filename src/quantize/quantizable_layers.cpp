#include "quantize/quantizable_layers.h"

#include <limits>

#include "ir/ops/contract.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

// Of a step of u8 around any zero point, and one of i8.
constexpr double largest_product = 255.0 * 128.0;

bool can_be_summed(int64_t products) {
  return static_cast<double>(products) * largest_product <= std::numeric_limits<int32_t>::max();
}

bool is_activation(const Graph& graph, ValueId id) {
  return !graph.is_constant(id) && graph.type(id).dtype == DType::f32;
}

bool is_weight(const Graph& graph, ValueId id) {
  return is_readable_constant(graph, id) && graph.type(id).dtype == DType::f32 && graph.value(id).constant->size() != 0;
}

}  // namespace

std::vector<QuantizableLayer> quantizable_layers(const Graph& graph) {
  std::vector<QuantizableLayer> layers;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const auto* matmul = node.op.as<ops::MatMul>();
    const auto* conv = node.op.as<ops::Conv>();
    if (!matmul && !conv) continue;
    const ValueId x = node.inputs[0], weights = node.inputs[1];
    if (!is_activation(graph, x) || !is_weight(graph, weights)) continue;
    const Dims& dims = graph.value(weights).constant->dims();
    if (matmul && (dims.size() != 2 || matmul->transpose_a)) continue;
    const int64_t axis = matmul && !matmul->transpose_b ? 1 : 0;
    if (!can_be_summed(graph.value(weights).constant->size() / dims[static_cast<size_t>(axis)])) continue;
    const int64_t rank = static_cast<int64_t>(graph.shape(x).size());
    const ChannelAxis read = conv ? ChannelAxis{conv->channels_last ? rank - 1 : 1, dims[1] * conv->groups}
                                  : ChannelAxis{rank - 1, dims[axis == 0 ? 1 : 0]};
    layers.push_back(
        {i, node.sources.empty() ? graph.value(node.outputs[0]).name : node.sources.front(), x, axis, read});
  }
  return layers;
}

}  // namespace camshaft
