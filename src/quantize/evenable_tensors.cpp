#include "quantize/evenable_tensors.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

/// A convolution in the model's layout whose weights, and whose bias if it has one, are f32 constants.
bool is_convolution_of_constants(const Graph& graph, int32_t index) {
  if (index < 0) return false;
  const Node& node = graph.nodes[static_cast<size_t>(index)];
  const auto* conv = node.op.as<ops::Conv>();
  const auto is_constant = [&](ValueId id) {
    return is_readable_constant(graph, id) && graph.type(id).dtype == DType::f32;
  };
  return conv && !conv->channels_last && is_constant(node.inputs[1]) &&
         graph.value(node.inputs[1]).constant->size() > 0 &&
         (node.inputs.size() < 3 || node.inputs[2] == no_value || is_constant(node.inputs[2]));
}

/// The node that gives what a ReLU bounds in `id`, or that gives `id`; -1 where something beside the ReLU reads it, or
/// where the graph has it as an output.
int32_t behind_relu(const Graph& graph, const Uses& uses, ValueId id) {
  const auto producer = [&](ValueId of) { return uses.producer[static_cast<size_t>(of)]; };
  const int32_t index = producer(id);
  if (index < 0 || uses.is_output[static_cast<size_t>(id)]) return -1;
  const Node& node = graph.nodes[static_cast<size_t>(index)];
  const auto* pointwise = node.op.as<ops::Pointwise>();
  if (!pointwise) return index;
  if (pointwise->function != ScalarFunction::max) return -1;
  for (const size_t x : {0, 1})
    if (uniform_constant(graph, node.inputs[1 - x]) == 0.0 && uses.single(node.inputs[x]))
      return producer(node.inputs[x]);
  return -1;
}

}  // namespace

std::unordered_map<ValueId, EvenableTensor> evenable_tensors(const Graph& graph,
                                                             const std::vector<QuantizableLayer>& layers) {
  const Uses uses(graph);
  std::unordered_map<ValueId, std::vector<const QuantizableLayer*>> read;
  for (const QuantizableLayer& layer : layers) read[layer.x].push_back(&layer);
  std::unordered_map<ValueId, EvenableTensor> tensors;
  for (const auto& [x, readers] : read) {
    const ChannelAxis axis = readers.front()->read;
    const bool is_one_axis = std::all_of(readers.begin(), readers.end(), [&](const QuantizableLayer* layer) {
      return layer->read.axis == axis.axis && layer->read.channels == axis.channels;
    });
    const bool is_image = std::any_of(readers.begin(), readers.end(), [&](const QuantizableLayer* layer) {
      return graph.nodes[layer->node].op.as<ops::Conv>() != nullptr;
    });
    const bool only_layers = uses.readers[static_cast<size_t>(x)].size() == readers.size();
    const int32_t before = only_layers ? behind_relu(graph, uses, x) : -1;
    const int32_t source = is_convolution_of_constants(graph, before) ? before : -1;
    if (is_one_axis && (source >= 0 || !is_image)) tensors.emplace(x, EvenableTensor{axis, source});
  }
  return tensors;
}

}  // namespace camshaft
