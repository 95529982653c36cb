#include "builder/optimize_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.h"
#include "builder/build_inputs.h"
#include "builder/find_beyond_storage.h"
#include "builder/model_types.h"
#include "builder/quantize_model.h"
#include "builder/refittable_build.h"
#include "ir/ops/float8.h"
#include "ir/ops/quantize.h"
#include "quantize/calibration_file.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

bool quantizes_to_float8(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    const auto* op = node.op.as<ops::Quantize>();
    return (op && ops::is_float8(op->dtype)) ||
           std::any_of(node.bodies.begin(), node.bodies.end(), quantizes_to_float8);
  });
}

bool sums_float8(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op.as<ops::Float8MatMul>() || node.op.as<ops::Float8Conv>() ||
           std::any_of(node.bodies.begin(), node.bodies.end(), sums_float8);
  });
}

}  // namespace

void warn_of_unused(const BuildOptions& options, const Backend& backend) {
  const Precision precision = choose_precision(options, backend);
  const std::string& name = backend.device().name;
  const bool stores = precision.storage != DType::f32;
  if ((options.fp16 || options.bf16) && !stores && precision.rounding != ops::Rounding::bf16)
    log_warning(fmt::format("{} has no kernels that are faster in {}: the engine is built in fp32", name,
                            options.fp16 ? "fp16" : "bf16"));
  if (options.int8 && !backend.gains_from(DType::i8))
    log_warning(fmt::format("{} has no kernels that are faster in int8: no layer is quantised", name));
  if (!options.calibration.empty() && !options.int8 && !options.fp8 && !options.best)
    log_warning(fmt::format("the calibration '{}' is not used: neither int8 nor fp8 is allowed (--int8, --fp8, --best)",
                            options.calibration));
  if (options.tf32 && precision.rounding == ops::Rounding::bf16)
    log_warning("products of fp32 take operands rounded to bf16, which is faster here than TF32");
  else if (options.tf32 && precision.rounding != ops::Rounding::tf32)
    log_warning(fmt::format("{} has no kernels that are faster in TF32: products of fp32 stay exact", name));
}

ModelOptimizer::ModelOptimizer(const BuildOptions& options, const Backend& backend, ThreadPool& pool)
    : options_(options),
      pool_(pool),
      precision_(choose_precision(options, backend)),
      has_int8_(backend.gains_from(DType::i8)),
      has_float8_(backend.gains_from(DType::f8e4m3)),
      rules_(options.constraints == PrecisionConstraints::none ? std::vector<PrecisionRule>()
                                                               : options.layer_precisions),
      output_types_(options.constraints == PrecisionConstraints::none ? std::vector<PrecisionRule>()
                                                                      : options.layer_output_types),
      passes_(backend.passes(precision_.storage, precision_.rounding)) {
  check_order(passes_);
  runs_.most = options.stop_after_pass;
  const bool may_quantize = (options.int8 && has_int8_) || options.fp8;
  if (may_quantize && !options.calibration.empty()) calibration_ = read_calibration(options.calibration);
}

std::vector<LayerPrecision> ModelOptimizer::low_precisions() const {
  std::vector<LayerPrecision> list;
  if (calibration_ && options_.int8 && has_int8_) list.push_back(LayerPrecision::int8);
  if (calibration_ && options_.fp8) list.push_back(LayerPrecision::fp8);
  return list;
}

void ModelOptimizer::settle_meaning(Graph& model) {
  if (precision_.storage != DType::f32) {
    WideParts wide = wide_parts(model);
    // Later rules count before earlier ones: what somebody asks for comes last.
    wide.products.insert(wide.products.end(), rules_.rules().begin(), rules_.rules().end());
    rules_ = PrecisionRules(std::move(wide.products));
    wide_values_ = std::move(wide.values);
  }
  PassContext context{.pool = pool_};
  context.storage = precision_.storage;
  context.rounding = precision_.rounding;
  context.cancellation = options_.cancellation;
  context.runs = &runs_;
  run_passes(model, passes_.meaning, context);
  if (!calibration_ && options_.fp8) check_quantized(model, LayerPrecision::fp8);
  if (!calibration_ && options_.int8 && has_int8_) check_quantized(model, LayerPrecision::int8);
  if (!has_float8_ && quantizes_to_float8(model))
    log_warning(
        "this device has no products of 8-bit floats, which the model is quantised to: they are rounded as the "
        "model says, and multiplied in floating point. GPUs of compute capability 8.9 or more have them");
}

OptimizedModel ModelOptimizer::run(const Graph& model, std::optional<LayerPrecision> low, const KeptLayers& kept) {
  OptimizedModel result;
  PassRuns runs = runs_;
  PassContext context{.pool = pool_};
  context.storage = precision_.storage;
  context.rounding = precision_.rounding;
  context.cancellation = options_.cancellation;
  context.runs = &runs;
  context.rules = &rules_;
  if (!options_.profiles.empty()) context.optimum = bind_profile(model, options_.profiles.front());
  result.reference = model;
  if (low && calibration_)
    result.quantized_layers =
        quantize_model(result.reference, *calibration_, options_.calibration, kept, context, *low);
  std::set<std::string> in_f32 = outputs_in_f32(model);
  in_f32.insert(wide_values_.begin(), wide_values_.end());
  result.graph = result.reference;
  context.notes = &result.notes;
  run_passes_with_branches(result.graph, passes_.form, context);
  std::set<std::string> kept_f32;
  // Other weights would leave the range elsewhere: what is refitted is narrow throughout, and verified as such.
  if (context.storage != DType::f32 && options_.verify && !refits(options_)) {
    kept_f32 = find_beyond_storage(result.reference, result.graph, context.storage, sample_options(options_), pool_);
    in_f32.insert(kept_f32.begin(), kept_f32.end());
  }
  context.keep_f32 = &in_f32;
  context.kept_constants = &kept_f32;
  run_passes(result.graph, passes_.precision, context);
  result.kept_f32.assign(kept_f32.begin(), kept_f32.end());
  result.passes = std::move(runs.names);
  result.rounds_to_bf16 = precision_.rounding == ops::Rounding::bf16;
  result.sums_float8 = sums_float8(result.graph);
  result.precision = precision_text(result.quantized_layers);
  return result;
}

// Of the tensors that layers are asked to store in fp32.
std::set<std::string> ModelOptimizer::outputs_in_f32(const Graph& model) const {
  std::set<std::string> names;
  for (const Node& node : model.nodes)
    if (output_types_.of(node.sources) == LayerPrecision::fp32)
      for (const ValueId id : node.outputs) names.insert(model.value(id).name);
  return names;
}

std::string ModelOptimizer::precision_text(const std::vector<LayerPlacement>& layers) const {
  std::string text = "fp32";
  if (precision_.storage != DType::f32) text += precision_.storage == DType::f16 ? ", fp16" : ", bf16";
  if (precision_.rounding != ops::Rounding::none)
    text += precision_.rounding == ops::Rounding::bf16 ? ", bf16" : ", tf32";
  for (const LayerPrecision low : {LayerPrecision::int8, LayerPrecision::fp8})
    if (std::any_of(layers.begin(), layers.end(),
                    [&](const LayerPlacement& layer) { return layer.quantized && layer.precision == low; }))
      text += fmt::format(", {}", EnumNames<LayerPrecision>::values[static_cast<size_t>(low)]);
  return text;
}

}  // namespace camshaft
