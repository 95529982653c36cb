#include "builder/precision_gains.h"

#include <algorithm>

#include "builder/compile_graph.h"
#include "builder/optimize_model.h"
#include "builder/quantize_model.h"
#include "builder/verification.h"
#include "compile/tune/tuner.h"

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

// Every layer in int8. What the ranges are makes no difference to its time.
Graph quantized(Graph model, const PassContext& context) {
  prepare_quantization(model, context);
  Calibration calibration;
  for (const std::string& tensor : tensors_to_calibrate(model)) calibration.ranges[tensor] = {-1, 1};
  place_quantization(model, calibration);
  return model;
}

// The largest error of an output, as a part of its scale; nothing where there is no such engine.
std::optional<double> error_of(Graph graph, const BuildOptions& options, std::shared_ptr<const Backend> backend,
                               const VerificationSample& sample, ThreadPool& pool) {
  try {
    CompileOptions compile;
    compile.profiles = options.profiles;
    compile.cancellation = options.cancellation;
    const std::vector<std::string> names = graph.output_names;
    const Engine engine = compile_graph(std::move(graph), std::move(backend), compile);
    double error = 0;
    for (const OutputError& output :
         compare_outputs(names, sample.expected, run_once(engine, sample.inputs, pool.size()), 1))
      if (!output.exact) error = std::max(error, output.relative());
    return error;
  } catch (const Error& e) {  // a hint is no reason for a build to fail
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
  const auto add = [&](const char* precision, const BuildOptions& with, const Graph& of, bool is_quantized) {
    ModelOptimizer optimizer(with, *backend, pool);
    Graph faster = optimizer.run(of, std::nullopt, {}).graph;
    const double then = seconds_by_estimate(faster, *backend, optimum, pool);
    if (then <= 0 || now <= least_gain * then) return;
    PrecisionGain gain{precision, now / then, {}};
    if (sample != nullptr && !is_quantized) gain.error = error_of(std::move(faster), options, backend, *sample, pool);
    gains.push_back(std::move(gain));
  };
  BuildOptions with = options;
  with.verify = false;  // nothing needs to run on samples
  if (backend->gains_from(DType::f16)) {
    with.fp16 = true;
    add("fp16", with, model, false);
  } else if (backend->gains_from(DType::bf16) || backend->gains_from_rounding(ops::Rounding::bf16)) {
    with.bf16 = true;
    add("bf16", with, model, false);
  }
  if (backend->gains_from(DType::i8)) {
    with.fp16 = with.bf16 = false;
    add("int8", with, quantized(model, PassContext{.pool = pool, .cancellation = options.cancellation}), true);
  }
  return gains;
}

}  // namespace camshaft
