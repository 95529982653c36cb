#include "builder/quantize_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/quantize.h"
#include "optimize/canonicalize/canonicalization.h"
#include "optimize/canonicalize/merge_convolutions.h"
#include "optimize/pipeline.h"
#include "quantize/calibration_file.h"
#include "quantize/place_table_quantization.h"
#include "quantize/quantizable_layers.h"

namespace camshaft {

namespace {

bool has_quantized_tensors(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op.as<ops::Quantize>() || node.op.as<ops::Dequantize>() ||
           std::any_of(node.bodies.begin(), node.bodies.end(), has_quantized_tensors);
  });
}

}  // namespace

void prepare_quantization(Graph& graph, const PassContext& context) {
  run_passes(graph, {canonicalization(), merge_quantizable_convolutions_pass}, context);
}

void check_quantized(const Graph& graph, LayerPrecision precision) {
  if (has_quantized_tensors(graph)) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{} needs the ranges of the model's tensors: give a calibration (--calibration FILE, which "
                  "`camshaft calibrate` makes; in a job calibration_cache or calibration_data), or a model with "
                  "QuantizeLinear and DequantizeLinear",
                  EnumNames<LayerPrecision>::values[static_cast<size_t>(precision)]));
}

std::vector<LayerPlacement> quantize_model(Graph& graph, const Calibration& calibration, const std::string& file,
                                           const KeptLayers& kept, const PassContext& context,
                                           LayerPrecision precision) {
  const bool is_int8 = precision == LayerPrecision::int8;
  prepare_quantization(graph, context);
  tensors_without_range(calibration, tensors_to_calibrate(graph), file);
  KeptLayers all_kept = kept;
  for (const QuantizableLayer& layer : quantizable_layers(graph)) {
    const auto asked =
        context.rules ? context.rules->of(graph.nodes[layer.node].sources) : std::optional<LayerPrecision>();
    const auto noise = calibration.noise.find(graph.value(layer.x).name);
    if (asked && *asked != precision)
      all_kept[layer.name] =
          fmt::format("{} was asked of it", EnumNames<LayerPrecision>::values[static_cast<size_t>(*asked)]);
    else if (is_int8 && !asked && noise != calibration.noise.end() && noise->second > most_noise)
      all_kept[layer.name] = fmt::format("8 bits would leave '{}' with {:.2g} % of noise, {:g} % is allowed",
                                         graph.value(layer.x).name, 100 * noise->second, 100 * most_noise);
  }
  std::vector<LayerPlacement> layers = place_quantization(graph, calibration, all_kept, precision);
  if (is_int8) place_table_quantization(graph);
  return layers;
}

}  // namespace camshaft
