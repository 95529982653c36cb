#include "builder/write_quantized_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"
#include "builder/optimize_model.h"
#include "builder/quantize_model.h"
#include "builder/unmet_rules.h"
#include "onnx/export/sums_of_quantized_products.h"
#include "optimize/canonicalize/canonicalization.h"
#include "optimize/pipeline.h"
#include "optimize/precision/keep_activations.h"
#include "quantize/calibration_file.h"
#include "quantize/place_result_quantization.h"
#include "runtime/backends.h"

namespace camshaft {

namespace {

LayerPrecision precision_of(const BuildOptions& options) {
  if (options.int8 && options.fp8)
    throw Error(ErrorCode::invalid_argument,
                "a model is quantised to int8 or to fp8: give one of the two (int8 is the default)");
  return options.fp8 ? LayerPrecision::fp8 : LayerPrecision::int8;
}

// In the file there is one precision of 8 bits, and floating point.
std::vector<PrecisionRule> rules_of(const BuildOptions& options, LayerPrecision precision) {
  if (options.constraints == PrecisionConstraints::none) return {};
  std::vector<PrecisionRule> rules = options.layer_precisions;
  for (PrecisionRule& rule : rules)
    if (rule.precision != precision) rule.precision = LayerPrecision::fp32;
  return rules;
}

void check_rules(const BuildOptions& options, LayerPrecision precision, const Graph& model,
                 const std::vector<LayerPlacement>& layers) {
  BuildOptions asked = options;
  asked.fp8 = precision == LayerPrecision::fp8;
  asked.int8 = !asked.fp8;  // which is what this is for
  asked.layer_precisions = rules_of(options, precision);
  OptimizedModel made;
  made.quantized_layers = layers;
  check_rules(asked, model, made, "the model is written");
}

void check_any_quantized(const std::vector<LayerPlacement>& layers) {
  if (layers.empty())
    throw Error(ErrorCode::invalid_argument,
                "there is nothing to quantise: the model has no convolution and no product of f32 with constant "
                "weights, or they are quantised already");
  if (std::none_of(layers.begin(), layers.end(), [](const LayerPlacement& layer) { return layer.quantized; }))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("nothing would be quantised: '{}' stays in floating point, as {}", layers[0].layer,
                            layers[0].reason));
}

}  // namespace

void write_quantized_model(const std::filesystem::path& model, const std::filesystem::path& output,
                           const BuildOptions& options, bool external_data, QuantizeReport& report) {
  report = {};
  const LayerPrecision precision = precision_of(options);
  if (options.calibration.empty())
    throw Error(ErrorCode::invalid_argument,
                "quantising a model needs the ranges of its tensors: give a calibration (--calibration FILE, which "
                "`camshaft calibrate` makes)");
  const Calibration calibration = read_calibration(options.calibration);
  const PrecisionRules rules(rules_of(options, precision));
  const std::shared_ptr<const Backend> backend = find_backend(options.device);
  const auto run = [&](Graph& graph, const PassContext& given) {
    PassContext context = given;
    context.rules = &rules;
    const Graph before = graph;
    // As calibration does, so that tensors have the names that it gave ranges to.
    run_passes(graph, {keep_activations_pass}, context);
    run_passes(graph, backend->passes(context.storage, context.rounding).meaning, context);
    report.quantized_layers = quantize_model(graph, calibration, options.calibration, {}, context, precision);
    check_rules(options, precision, before, report.quantized_layers);
    check_any_quantized(report.quantized_layers);
    if (precision == LayerPrecision::int8) {
      PlacedResults results = place_result_quantization(graph, calibration);
      report.results_in_steps = static_cast<int64_t>(results.placed);
      report.results_without_range = std::move(results.without_range);
    }
    Graph meaning = graph;
    run_passes_with_branches(graph, {canonicalization()}, context);
    return meaning;
  };
  const auto settle = [](onnx::ModelProto& written) { onnx::write_sums_of_quantized_products(written.graph); };
  rewrite_model(model, output, options, external_data, {"quantizing", "quantised", run, settle}, report);
}

}  // namespace camshaft
