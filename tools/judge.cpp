#include "tools/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "camshaft/reference.hpp"
#include "camshaft/system.hpp"
#include "tools/interrupt.h"
#include "tools/onnxruntime_process.h"
#include "tools/report.h"

namespace camshaft::tools {

namespace {

Verdict against_reference(const std::string& model, const BuildOptions& options) {
  Builder builder(options);
  Verdict verdict;
  try {
    builder.build(model);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::verification_failed) throw;
    verdict.failure = error.what();
  }
  verdict.errors = builder.report().verification;
  verdict.layers = format_layers(builder.report());
  verdict.passes = builder.report().passes;
  return verdict;
}

// The engine that `build` makes of these options: only what is verified may use approximate tactics, and f16 only where
// the sample fits. One that `build` refuses is judged all the same, so that it is seen which of the two is wrong.
Engine build_to_judge(const std::string& model, BuildOptions options, Verdict& verdict) {
  Builder builder(options);
  try {
    Engine engine = builder.build(model);
    verdict.passes = builder.report().passes;
    return engine;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::verification_failed) throw;
    verdict.failure = error.what();
    verdict.passes = builder.report().passes;
  }
  return Builder(options.set("verify", false)).build(model);
}

// Of which a comparison learns nothing: they are empty, or have no finite number.
int64_t silent_outputs(const std::vector<OutputError>& errors) {
  return std::count_if(errors.begin(), errors.end(), [](const OutputError& e) { return e.compared == 0; });
}

// The engine's outputs and ONNX Runtime's on the inputs of one seed, in which those that are given take their places.
std::vector<OutputError> compare_on(uint64_t seed, const std::string& model, const Engine& engine, Context& context,
                                    const BuildOptions& options, const JudgedInputs& given, int threads) {
  NamedShapes shapes;
  for (const auto& [name, tensor] : given.inputs) shapes[name] = tensor.dims();
  NamedTensors inputs = engine.sample_inputs(shapes, seed);
  for (auto& [name, tensor] : inputs)
    for (const auto& [given_name, given_tensor] : given.inputs)
      if (given_name == name) tensor = given_tensor;
  std::vector<std::string> output_names;
  for (const TensorInfo& info : engine.outputs()) output_names.push_back(info.name);
  if (given.progress != nullptr) given.progress->update("running the engine", 1);
  for (const auto& [name, tensor] : inputs) context.set_input(name, tensor);
  context.run();
  if (given.progress != nullptr) given.progress->update("running ONNX Runtime", 1);
  const std::vector<Tensor> expected =
      run_onnxruntime(model, inputs, output_names, given.custom_ops, threads, cancel_on_interrupt());
  std::vector<OutputError> errors;
  for (size_t i = 0; i < output_names.size(); ++i)
    errors.push_back(
        compare(output_names[i], expected[i], context.output(output_names[i]), options.get("tolerance").number()));
  return errors;
}

Verdict against_onnxruntime(const std::string& model, const BuildOptions& options, const JudgedInputs& given) {
  const auto asked = static_cast<int>(options.get("threads").integer());
  const int threads = asked > 0 ? asked : available_cores();
  Verdict verdict;
  const Engine engine = build_to_judge(model, options, verdict);
  Context context = engine.create_context(ContextOptions().set("threads", threads));
  // Numbers of which the logarithms are all NaN say nothing: others are drawn, as a build does.
  const auto first = static_cast<uint64_t>(options.get("seed").integer());
  const bool draws = given.inputs.size() < engine.inputs().size();
  constexpr uint64_t other_seeds = 4, apart = 1000;
  const auto compare_from = [&](uint64_t seed) {
    return compare_on(seed, model, engine, context, options, given, threads);
  };
  verdict.errors = compare_from(first);
  for (uint64_t n = 1; n <= other_seeds && draws && silent_outputs(verdict.errors) > 0; ++n) {
    const std::vector<OutputError> others = compare_from(first + n * apart);
    // What was found stays; other numbers add what they show.
    for (size_t i = 0; i < others.size(); ++i) {
      OutputError& known = verdict.errors[i];
      if (known.passed && (!others[i].passed || known.compared == 0)) known = others[i];
    }
  }
  const bool says_nothing =
      !verdict.errors.empty() && silent_outputs(verdict.errors) == static_cast<int64_t>(verdict.errors.size());
  if (says_nothing && draws && verdict.failure.empty())
    verdict.failure = fmt::format(
        "'{}' cannot be judged: ONNX Runtime gives no finite number for any output. Give real inputs (--inputs), or "
        "shapes that fit (--shapes)",
        model);
  return verdict;
}

}  // namespace

bool Verdict::passed() const {
  return failure.empty() && std::all_of(errors.begin(), errors.end(), [](const OutputError& e) { return e.passed; });
}

Verdict judge(const std::string& model, Judge who, const BuildOptions& options, const JudgedInputs& given) {
  return who == Judge::reference ? against_reference(model, options) : against_onnxruntime(model, options, given);
}

}  // namespace camshaft::tools
