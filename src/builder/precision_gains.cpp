#include "builder/precision_gains.h"

#include <algorithm>

#include "builder/optimize_model.h"
#include "builder/quantize_model.h"
#include "compile/tune/tuner.h"

namespace camshaft {

namespace {

constexpr double least_gain = 1.1;

double seconds_by_estimate(const Graph& graph, const Backend& backend, const SymbolBindings& optimum,
                           ThreadPool& pool) {
  TuneOptions options;
  options.mode = Tuning::heuristic;
  double nanoseconds = 0;
  for (const TacticDecision& decision : Tuner(backend, pool, options).choose(graph, optimum, Deviation::rounding))
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

}  // namespace

std::vector<PrecisionGain> precision_gains(const BuildOptions& options, const Backend& backend, const Graph& model,
                                           const Graph& graph, const SymbolBindings& optimum, ThreadPool& pool) {
  const double now = seconds_by_estimate(graph, backend, optimum, pool);
  std::vector<PrecisionGain> gains;
  const auto add = [&](const char* precision, const BuildOptions& with, const Graph& of) {
    ModelOptimizer optimizer(with, backend, pool);
    const double then = seconds_by_estimate(optimizer.run(of, false, {}).graph, backend, optimum, pool);
    if (then > 0 && now > least_gain * then) gains.push_back({precision, now / then});
  };
  BuildOptions with = options;
  with.verify = false;  // nothing needs to run on samples
  if (backend.gains_from(DType::f16)) {
    with.fp16 = true;
    add("fp16", with, model);
  } else if (backend.gains_from(DType::bf16) || backend.gains_from_rounding(ops::Rounding::bf16)) {
    with.bf16 = true;
    add("bf16", with, model);
  }
  if (backend.gains_from(DType::i8)) {
    with.fp16 = with.bf16 = false;
    add("int8", with, quantized(model, PassContext{.pool = pool, .cancellation = options.cancellation}));
  }
  return gains;
}

}  // namespace camshaft
