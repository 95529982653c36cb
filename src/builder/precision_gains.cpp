#include "builder/precision_gains.h"

#include <algorithm>
#include <utility>

#include "builder/compile_graph.h"
#include "builder/optimize_model.h"
#include "builder/quantize_model.h"
#include "builder/verification.h"
#include "builder/watched_graph.h"
#include "compile/tune/tuner.h"
#include "quantize/calibrators.h"
#include "quantize/collect_numbers.h"

namespace camshaft {

namespace {

constexpr double least_gain = 1.1;

double seconds_by_estimate(const Graph& graph, const Backend& backend, const SymbolBindings& optimum,
                           ThreadPool& pool) {
  TuneOptions options;
  options.mode = Tuning::heuristic;
  double nanoseconds = 0;
  for (const TacticDecision& decision : Tuner(backend, pool, options).choose(graph, {optimum}, Deviation::rounding))
    for (const TacticTrial& trial : decision.tried)
      if (trial.tactic == decision.tactic) nanoseconds += static_cast<double>(trial.estimated_ns);
  return nanoseconds;
}

// Every layer in int8. What the ranges are makes no difference to its time: those that are not known are [-1, 1].
Graph quantized(Graph prepared, Calibration calibration) {
  for (const std::string& tensor : tensors_to_calibrate(prepared))
    calibration.ranges.try_emplace(tensor, TensorRange{-1, 1});
  place_quantization(prepared, calibration);
  return prepared;
}

CompileOptions compile_options(const BuildOptions& options) {
  CompileOptions compile;
  compile.profiles = options.profiles;
  compile.cancellation = options.cancellation;
  return compile;
}

// What a calibration on the sample alone gives.
Calibration calibrated_on(const VerificationSample& sample, Graph prepared, const BuildOptions& options,
                          std::shared_ptr<const Backend> backend, const PassContext& context) {
  std::vector<std::string> tensors = tensors_to_calibrate(prepared);
  const BackendPasses passes = backend->passes(context.storage, context.rounding);
  WatchedGraph made = watched_graph(std::move(prepared), std::move(tensors), passes, context);
  const Engine engine = compile_graph(std::move(made.graph), std::move(backend), compile_options(options));
  const NextBatch once = [&, is_done = false](const std::vector<TensorInfo>& inputs, Batch& batch) mutable {
    if (std::exchange(is_done, true)) return false;
    for (size_t i = 0; i < inputs.size(); ++i) batch.emplace_back(inputs[i].name, view_of(sample.inputs[i]));
    return true;
  };
  const CollectOptions collect{
      .threads = context.pool.size(), .extremes_only = true, .cancellation = options.cancellation};
  const CollectedNumbers numbers = collect_numbers(engine, made.watched, once, collect);
  Calibration found;
  for (size_t w = 0; w < made.watched.size(); ++w) {
    const Histogram& histogram = numbers.histograms[w];
    if (histogram.summary().finite() == 0) continue;
    for (const WatchedTensor& tensor : made.watched[w].tensors)
      found.ranges[tensor.name] = calibrated_range(histogram, CalibrationMethod::minmax, 100);
  }
  return found;
}

// The largest error of an output, as a part of its scale.
double error_of(Graph graph, const BuildOptions& options, std::shared_ptr<const Backend> backend,
                const VerificationSample& sample, ThreadPool& pool) {
  const std::vector<std::string> names = graph.output_names;
  const Engine engine = compile_graph(std::move(graph), std::move(backend), compile_options(options));
  double error = 0;
  for (const OutputError& output :
       compare_outputs(names, sample.expected, run_once(engine, sample.inputs, pool.size()), 1))
    if (!output.exact) error = std::max(error, output.relative());
  return error;
}

// A hint is no reason for a build to fail.
template <class F>
std::optional<double> unless_it_fails(F&& error) {
  try {
    return error();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::cancelled) throw;
    return std::nullopt;
  }
}

}  // namespace

std::vector<PrecisionGain> precision_gains(const BuildOptions& options, const std::shared_ptr<const Backend>& backend,
                                           const Graph& model, const Graph& graph, const SymbolBindings& optimum,
                                           const VerificationSample* sample, ThreadPool& pool) {
  const double now = seconds_by_estimate(graph, *backend, optimum, pool);
  std::vector<PrecisionGain> gains;
  const auto optimized = [&](const BuildOptions& with, const Graph& of) {
    return ModelOptimizer(with, *backend, pool).run(of, std::nullopt, {}).graph;
  };
  // `error` is asked where it is worth saying.
  const auto add = [&](const char* precision, const Graph& faster, const auto& error) {
    const double then = seconds_by_estimate(faster, *backend, optimum, pool);
    if (then <= 0 || now <= least_gain * then) return;
    gains.push_back({precision, now / then, {}});
    if (sample != nullptr) gains.back().error = unless_it_fails(error);
  };
  BuildOptions with = options;
  with.verify = false;  // nothing needs to run on samples
  const bool has_f16 = backend->gains_from(DType::f16);
  if (has_f16 || backend->gains_from(DType::bf16) || backend->gains_from_rounding(ops::Rounding::bf16)) {
    (has_f16 ? with.fp16 : with.bf16) = true;
    const Graph faster = optimized(with, model);
    add(has_f16 ? "fp16" : "bf16", faster, [&] { return error_of(faster, options, backend, *sample, pool); });
  }
  if (backend->gains_from(DType::i8)) {
    with.fp16 = with.bf16 = false;
    const PassContext context{.pool = pool, .cancellation = options.cancellation};
    Graph prepared = model;
    prepare_quantization(prepared, context);
    add("int8", optimized(with, quantized(prepared, {})), [&] {
      const Calibration calibration = calibrated_on(*sample, prepared, options, backend, context);
      return error_of(optimized(with, quantized(prepared, calibration)), options, backend, *sample, pool);
    });
  }
  return gains;
}

}  // namespace camshaft
