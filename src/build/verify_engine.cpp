#include "build/verify_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <variant>

#include "base/float_types.h"
#include "build/verification_sample.h"
#include "camshaft/context.h"
#include "ops/evaluate.h"
#include "runtime/engine_impl.h"
#include "runtime/tensor_view.h"

namespace camshaft {

namespace {

std::string describe(const PlanStep& step) {
  std::string sources;
  for (const std::string& s : step.sources) sources += (sources.empty() ? "" : ", ") + s;
  return fmt::format("layer '{}' ({}, tactic {}), from the model's nodes {}", step.name, step.op, step.tactic,
                     sources.empty() ? "-" : sources);
}

Tensor widened(const Tensor& tensor) {
  Tensor made(DType::f32, tensor.dims());
  convert_to_float(tensor.dtype(), tensor.data(), made.as_mutable<float>(), tensor.size());
  return made;
}

// Compares every tensor that the plan and the model have in common, in the order of the plan.
std::string find_culprit(const Graph& model, const Engine& engine, const VerificationSample& sample, double tolerance,
                         const Cancellation& cancellation, ThreadPool& pool) {
  const Plan& plan = engine.impl()->plan;
  std::map<std::string, Tensor> expected;
  for (const PlanStep& step : plan.steps)
    for (const int32_t id : step.outputs) expected[plan.values[static_cast<size_t>(id)].name] = Tensor();
  EvaluateOptions options;
  options.cancellation = &cancellation;
  options.observer = [&](const Node& node, const std::vector<Tensor>& outputs) {
    for (size_t o = 0; o < outputs.size() && o < node.outputs.size(); ++o) {
      const auto it = expected.find(model.value(node.outputs[o]).name);
      if (it != expected.end()) it->second = outputs[o];
    }
  };
  evaluate(model, sample.inputs, pool, options);

  std::string culprit;
  Context context = engine.create_context({pool.size()});
  context.set_cancellation(cancellation);
  for (size_t i = 0; i < sample.inputs.size(); ++i)
    context.set_input(engine.inputs()[i].name, view_of(sample.inputs[i]));
  for (const PlanStep& step : plan.steps) {
    const std::string& name = plan.values[static_cast<size_t>(step.outputs[0])].name;
    const Tensor& reference = expected[name];
    if (!reference.defined() || holds_objects(reference.dtype())) continue;
    context.set_tap(name, [&, name](const TensorView& view) {
      if (!culprit.empty() || view.dims != reference.dims()) return;
      Tensor actual(view.dtype, view.dims, {static_cast<const std::byte*>(view.data), view.bytes}, nullptr);
      if ((view.dtype == DType::f16 || view.dtype == DType::bf16) && reference.dtype() == DType::f32)
        actual = widened(actual);
      if (actual.dtype() != reference.dtype()) return;
      const OutputError error = compare_outputs({name}, {reference}, {actual}, tolerance)[0];
      if (!error.passed)
        culprit = fmt::format("{}: error {:.3g} of scale {:.3g}", describe(step), error.max_error, error.scale);
    });
  }
  context.run();
  return culprit;
}

// Accepts an error of up to four times that of the reference with noise.
void allow_spread(OutputError& error, const OutputError& spread, double& sensitivity) {
  if (error.exact) {
    if (error.differing > 0) error.undecided = std::max(error.undecided, spread.differing);
    error.passed = error.passed || error.differing <= 4 * error.undecided;
  } else if (std::isfinite(spread.relative())) {
    sensitivity = std::max(sensitivity, spread.relative());
    error.passed = error.passed || error.relative() <= 4 * spread.relative();
  }
}

}  // namespace

VerifyResult verify_engine(const Graph& model, const Engine& engine, const VerifyOptions& options, ThreadPool& pool) {
  SampleOptions wanted;
  wanted.seed = options.seed;
  wanted.shapes = options.shapes;
  wanted.inputs = options.inputs;
  wanted.symbols = engine.impl()->optimum;
  wanted.cancellation = options.cancellation;
  const auto made = find_sample(model, wanted, pool);
  VerifyResult result;
  if (const std::string* failure = std::get_if<std::string>(&made)) {
    result.unverified = *failure;
    return result;
  }
  const VerificationSample& sample = std::get<VerificationSample>(made);
  result.input_shapes = sample.shapes;
  const std::vector<Tensor> actual = run_once(engine, sample.inputs, pool.size());
  result.outputs = compare_outputs(model.output_names, sample.expected, actual, options.tolerance);
  const auto all_passed = [&] {
    return std::all_of(result.outputs.begin(), result.outputs.end(), [](const OutputError& e) { return e.passed; });
  };
  const bool ask = std::any_of(result.outputs.begin(), result.outputs.end(), [&](const OutputError& e) {
    return !e.exact && !(e.relative() <= options.sensitivity_above);
  });
  // Whether nearly equal numbers change places is a matter of chance: one evaluation with noise may not show it.
  constexpr uint64_t most_runs = 4;
  for (uint64_t run = 0; run < most_runs && (run == 0 ? ask || !all_passed() : !all_passed()); ++run) {
    EvaluateOptions noisy;
    noisy.cancellation = &options.cancellation;
    noisy.rounding_noise = options.rounding_noise;
    noisy.noise_seed = options.seed + run;
    const std::vector<Tensor> moved = evaluate(model, sample.inputs, pool, noisy);
    const std::vector<OutputError> spread =
        compare_outputs(model.output_names, sample.expected, moved, options.tolerance);
    for (size_t o = 0; o < spread.size(); ++o) allow_spread(result.outputs[o], spread[o], result.sensitivity);
  }
  result.passed = all_passed();
  if (!result.passed)
    result.culprit = find_culprit(model, engine, sample, std::max(options.tolerance, 4 * result.sensitivity),
                                  options.cancellation, pool);
  return result;
}

}  // namespace camshaft
