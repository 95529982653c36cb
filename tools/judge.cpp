#include "tools/judge.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/available_cores.h"
#include "builder/sample_inputs.h"
#include "builder/verification.h"
#include "runtime/engine_impl.h"
#include "runtime/tensor_view.h"
#include "tools/onnxruntime_process.h"
#include "tools/report.h"

namespace camshaft {

namespace {

Verdict against_reference(const std::string& model, BuildOptions options) {
  Builder builder(std::move(options));
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
  if (const std::string& why = builder.report().unverified; !why.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' cannot be verified on made-up inputs: {}. Give real ones (--inputs), or shapes that "
                            "fit (--shapes)",
                            model, why));
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
  options.verify = false;
  return Builder(options).build(model);
}

Verdict against_onnxruntime(const std::string& model, BuildOptions options) {
  const int threads = options.threads > 0 ? options.threads : available_cores();
  Verdict verdict;
  const Engine engine = build_to_judge(model, options, verdict);
  const Engine::Impl& impl = *engine.impl();
  std::map<std::string, Dims> shapes;
  for (const auto& [name, view] : options.verification_inputs) shapes[name] = view.dims;
  std::vector<Tensor> inputs =
      sample_inputs(impl.graph, choose_input_shapes(impl.graph, shapes, impl.optimum), options.seed);
  std::vector<std::string> input_names, output_names;
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_names.push_back(engine.inputs()[i].name);
    const auto given = options.verification_inputs.find(input_names.back());
    if (given != options.verification_inputs.end()) inputs[i] = copy_of(given->second);
  }
  for (const TensorInfo& info : engine.outputs()) output_names.push_back(info.name);
  if (options.progress) options.progress("running the engine", 1);
  const std::vector<Tensor> actual = run_once(engine, inputs, threads);
  if (options.progress) options.progress("running ONNX Runtime", 1);
  const std::vector<Tensor> expected =
      run_onnxruntime(model, input_names, inputs, output_names, threads, options.cancellation);
  verdict.errors = compare_outputs(output_names, expected, actual, options.effective_tolerance());
  return verdict;
}

}  // namespace

bool Verdict::passed() const {
  return failure.empty() && std::all_of(errors.begin(), errors.end(), [](const OutputError& e) { return e.passed; });
}

Verdict judge(const std::string& model, Judge who, BuildOptions options) {
  return who == Judge::reference ? against_reference(model, std::move(options))
                                 : against_onnxruntime(model, std::move(options));
}

}  // namespace camshaft
