#include "builder/precision_gains.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "base/time_limit.h"
#include "base/work_scope.h"
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

// An optional that is empty where it cannot be told: a hint is no reason for a build to fail.
template <class F>
auto unless_it_fails(F&& hint) -> decltype(hint()) {
  try {
    return hint();
  } catch (const Error& e) {
    if (e.code() == ErrorCode::cancelled) throw;
  } catch (const std::bad_alloc&) {
  }
  return {};
}

// Nor one for it to take long: empty, too, where that is not told in time.
template <class F>
auto unless_it_takes_long(std::chrono::milliseconds most, F&& hint) -> decltype(hint()) {
  try {
    const TimeLimit limit(most);
    const WorkScope scope(limit.cancellation());
    return unless_it_fails(hint);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::cancelled) throw;
  } catch (const std::system_error&) {  // no thread to watch the time
  }
  cancellation_point();  // of the whole build
  return {};
}

}  // namespace

std::vector<PrecisionGain> precision_gains(const BuildOptions& options, const std::shared_ptr<const Backend>& backend,
                                           const Graph& model, const Graph& graph, const SymbolBindings& optimum,
                                           const VerificationSample* sample, ThreadPool& pool,
                                           std::chrono::milliseconds time_for_error) {
  const double now = seconds_by_estimate(graph, *backend, optimum, pool);
  const auto optimized = [&](const BuildOptions& with, const Graph& of) {
    return ModelOptimizer(with, *backend, pool).run(of, std::nullopt, {}).graph;
  };
  using Gain = std::optional<PrecisionGain>;
  // `error` is asked where it is worth saying.
  const auto gain_of = [&](const char* precision, const Graph& faster, const auto& error) -> Gain {
    const double then = seconds_by_estimate(faster, *backend, optimum, pool);
    if (then <= 0 || now <= least_gain * then) return std::nullopt;
    PrecisionGain gain{precision, now / then, {}};
    if (sample != nullptr) gain.error = unless_it_takes_long(time_for_error, error);
    return gain;
  };
  std::vector<PrecisionGain> gains;
  const auto add = [&](const auto& make) {
    if (Gain gain = unless_it_fails(make)) gains.push_back(std::move(*gain));
  };
  BuildOptions with = options;
  with.verify = false;  // nothing needs to run on samples
  const bool has_f16 = backend->gains_from(DType::f16);
  if (has_f16 || backend->gains_from(DType::bf16) || backend->gains_from_rounding(ops::Rounding::bf16))
    add([&] {
      BuildOptions narrow = with;
      (has_f16 ? narrow.fp16 : narrow.bf16) = true;
      const Graph faster = optimized(narrow, model);
      return gain_of(has_f16 ? "fp16" : "bf16", faster,
                     [&] { return std::optional(error_of(faster, options, backend, *sample, pool)); });
    });
  if (backend->gains_from(DType::i8))
    add([&] {
      const PassContext context{.pool = pool, .cancellation = options.cancellation};
      Graph prepared = model;
      prepare_quantization(prepared, context);
      return gain_of("int8", optimized(with, quantized(prepared, {})), [&] {
        const Calibration calibration = calibrated_on(*sample, prepared, options, backend, context);
        Graph faster = optimized(with, quantized(prepared, calibration));
        return std::optional(error_of(std::move(faster), options, backend, *sample, pool));
      });
    });
  return gains;
}

}  // namespace camshaft
