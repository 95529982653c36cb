#include "quantize/place_result_quantization.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <unordered_map>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "quantize/quantizable_layers.h"
#include "quantize/step_parameters.h"

namespace camshaft {

namespace {

bool is_bound(const Graph& graph, const Node& node, ValueId of) {
  const auto* pointwise = node.op.as<ops::Pointwise>();
  if (!pointwise || (pointwise->function != ScalarFunction::min && pointwise->function != ScalarFunction::max))
    return false;
  const ValueId other = node.inputs[node.inputs[0] == of ? 1 : 0];
  return is_one_element(graph, other) && uniform_constant(graph, other).has_value();
}

// The result behind the bounds that nothing else reads before.
ValueId bounded(const Graph& graph, const Uses& uses, ValueId result) {
  while (uses.single(result)) {
    const Node& reader = graph.nodes[static_cast<size_t>(uses.readers[static_cast<size_t>(result)][0])];
    if (!is_bound(graph, reader, result)) break;
    result = reader.outputs[0];
  }
  return result;
}

bool is_output(const Uses& uses, ValueId id) {
  return uses.is_output[static_cast<size_t>(id)];
}

}  // namespace

std::vector<std::string> results_to_calibrate(const Graph& graph) {
  const Uses uses(graph);
  std::set<std::string> names;
  for (const QuantizableLayer& layer : quantizable_layers(graph)) {
    const Node& node = graph.nodes[layer.node];
    if (!node.op.as<ops::Conv>()) continue;
    const ValueId result = bounded(graph, uses, node.outputs[0]);
    if (!is_output(uses, result)) names.insert(graph.value(result).name);
  }
  return {names.begin(), names.end()};
}

PlacedResults place_result_quantization(Graph& graph, const Calibration& calibration) {
  const Uses uses(graph);
  const auto is_dequantized = [&](ValueId id) {
    const int32_t producer = uses.producer[static_cast<size_t>(id)];
    return producer >= 0 && graph.nodes[static_cast<size_t>(producer)].op.as<ops::Dequantize>();
  };
  const auto is_in_steps = [&](ValueId id) {
    const std::vector<int32_t>& readers = uses.readers[static_cast<size_t>(id)];
    return std::any_of(readers.begin(), readers.end(),
                       [&](int32_t reader) { return graph.nodes[static_cast<size_t>(reader)].op.as<ops::Quantize>(); });
  };
  PlacedResults placed;
  std::unordered_map<ValueId, StepParameters> parameters;
  for (const Node& node : graph.nodes) {
    if (!node.op.as<ops::Conv>() || !is_dequantized(node.inputs[0]) || !is_dequantized(node.inputs[1])) continue;
    const ValueId result = bounded(graph, uses, node.outputs[0]);
    if (is_output(uses, result) || is_in_steps(result) || parameters.contains(result)) continue;
    const std::string& name = graph.value(result).name;
    const auto range = calibration.ranges.find(name);
    const auto steps = range == calibration.ranges.end() ? std::nullopt : steps_of(range->second);
    if (steps) {
      parameters.emplace(result, *steps);
    } else {
      placed.without_range.push_back(name);
    }
  }
  placed.placed = parameters.size();

  Rewriter rewriter(graph);
  std::unordered_map<ValueId, ValueId> in_steps;
  for (Node& node : rewriter.nodes()) {
    for (ValueId& id : node.inputs)
      if (const auto steps = in_steps.find(id); steps != in_steps.end()) id = steps->second;
    const std::vector<ValueId> outputs = node.outputs;
    const std::vector<std::string> sources = node.sources;
    rewriter.keep(std::move(node));
    for (const ValueId id : outputs) {
      const auto found = parameters.find(id);
      if (found == parameters.end()) continue;
      const std::string name = graph.value(id).name;
      const ValueId scale = graph.add_constant(name + "_scale", Tensor::scalar(DType::f32, found->second.scale)),
                    zero = graph.add_constant(name + "_zero_point", Tensor::scalar(DType::u8, found->second.zero));
      const ValueId steps =
          graph.add(ops::Quantize{.dtype = DType::u8}, {id, scale, zero}, name + "_QuantizeLinear", sources);
      in_steps[id] = graph.add(ops::Dequantize{}, {steps, scale, zero}, name + "_DequantizeLinear", sources);
    }
  }
  rewriter.finish();
  return placed;
}

}  // namespace camshaft
