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

Verdict against_onnxruntime(const std::string& model, const BuildOptions& options, const JudgedInputs& given) {
  const auto asked = static_cast<int>(options.get("threads").integer());
  const int threads = asked > 0 ? asked : available_cores();
  Verdict verdict;
  const Engine engine = build_to_judge(model, options, verdict);
  NamedShapes shapes;
  for (const auto& [name, tensor] : given.inputs) shapes[name] = tensor.dims();
  NamedTensors inputs = engine.sample_inputs(shapes, static_cast<uint64_t>(options.get("seed").integer()));
  for (auto& [name, tensor] : inputs)
    for (const auto& [given_name, given_tensor] : given.inputs)
      if (given_name == name) tensor = given_tensor;
  std::vector<std::string> output_names;
  for (const TensorInfo& info : engine.outputs()) output_names.push_back(info.name);
  if (given.progress != nullptr) given.progress->update("running the engine", 1);
  Context context = engine.create_context(ContextOptions().set("threads", threads));
  for (const auto& [name, tensor] : inputs) context.set_input(name, tensor);
  context.run();
  if (given.progress != nullptr) given.progress->update("running ONNX Runtime", 1);
  const std::vector<Tensor> expected = run_onnxruntime(model, inputs, output_names, threads, cancel_on_interrupt());
  const double tolerance = options.get("tolerance").number();
  for (size_t i = 0; i < output_names.size(); ++i)
    verdict.errors.push_back(compare(output_names[i], expected[i], context.output(output_names[i]), tolerance));
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
