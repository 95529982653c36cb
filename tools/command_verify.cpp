// camshaft verify: an engine's results beside those of a judge.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "build/sample_inputs.h"
#include "build/verification.h"
#include "camshaft/builder.h"
#include "runtime/engine_impl.h"
#include "tools/build_options.h"
#include "tools/commands.h"
#include "tools/onnxruntime_process.h"
#include "tools/open_engine.h"
#include "tools/progress.h"
#include "tools/report.h"

namespace camshaft {

namespace {

struct Arguments : BuildArguments {
  std::string model, against = "reference";
  bool json = false;
};

struct Verdict {
  std::vector<OutputError> errors;
  std::string failure;  // of the builder, which names the layer
};

Verdict against_reference(const Arguments& arguments, BuildOptions options) {
  Builder builder(std::move(options));
  Verdict verdict;
  try {
    builder.build(arguments.model);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::verification_failed) throw;
    verdict.failure = error.what();
  }
  verdict.errors = builder.report().verification;
  return verdict;
}

Verdict against_onnxruntime(const Arguments& arguments, BuildOptions options, const NamedShapes& shapes,
                            Progress& progress) {
  options.verify = false;
  const int threads = options.threads > 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  const Cancellation cancellation = options.cancellation;
  const double tolerance = options.tolerance;
  const uint64_t seed = options.seed;
  const Engine engine = Builder(std::move(options)).build(arguments.model);

  const Engine::Impl& impl = *engine.impl();
  const std::vector<Tensor> inputs =
      sample_inputs(impl.graph, choose_input_shapes(impl.graph, shapes, impl.optimum), seed);
  std::vector<std::string> input_names, output_names;
  for (const TensorInfo& info : engine.inputs()) input_names.push_back(info.name);
  for (const TensorInfo& info : engine.outputs()) output_names.push_back(info.name);
  progress.update("running the engine", 0.6);
  const std::vector<Tensor> actual = run_once(engine, inputs, threads);
  progress.update("running ONNX Runtime", 0.8);
  const std::vector<Tensor> expected =
      run_onnxruntime(arguments.model, input_names, inputs, output_names, threads, cancellation);
  return {compare_outputs(output_names, expected, actual, tolerance), ""};
}

int verify(const Arguments& arguments) {
  Progress progress;
  BuildOptions options = arguments.options(progress);
  const NamedShapes shapes = parse_shapes(arguments.shapes);
  if (!shapes.empty()) options.profiles.push_back(fixed_profile(shapes));
  if (is_engine_file(arguments.model))
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("'{}' is an engine; verify takes the ONNX model, which says what is right", arguments.model));
  const double tolerance = options.tolerance;
  const Verdict verdict = arguments.against == "reference"
                              ? against_reference(arguments, std::move(options))
                              : against_onnxruntime(arguments, std::move(options), shapes, progress);
  progress.clear();
  const bool passed = verdict.failure.empty() && std::all_of(verdict.errors.begin(), verdict.errors.end(),
                                                             [](const OutputError& e) { return e.passed; });
  if (arguments.json) {
    nlohmann::json json = {{"model", arguments.model},
                           {"against", arguments.against},
                           {"tolerance", tolerance},
                           {"passed", passed},
                           {"outputs", to_json(verdict.errors)}};
    if (!verdict.failure.empty()) json["failure"] = verdict.failure;
    print_json(json);
  } else {
    fmt::print("{} against {}, tolerance {:g} of each output's scale\n{}", arguments.model,
               arguments.against == "reference" ? "the reference evaluation" : "ONNX Runtime", tolerance,
               format_errors(verdict.errors));
  }
  if (passed) return 0;
  throw Error(ErrorCode::verification_failed, verdict.failure.empty()
                                                  ? fmt::format("'{}' differs from {}; see the outputs marked FAILED",
                                                                arguments.model, arguments.against)
                                                  : verdict.failure);
}

}  // namespace

Command add_verify_command(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("verify", "Compile a model in memory and compare its results with a judge's");
  command->add_option("MODEL", arguments->model, "The ONNX file")->required();
  command->add_option("--against", arguments->against, "reference (default): our own plain evaluation; or onnxruntime")
      ->type_name("JUDGE")
      ->check(CLI::IsMember({"reference", "onnxruntime"}))
      ->group("Verification");
  arguments->add_to(*command, "Shapes of the inputs to verify with; others are guessed");
  command->add_flag("--json", arguments->json, "Print the comparison as JSON");
  command->footer(
      "Inputs are seeded random values. Exit code 4 says that an output is outside the tolerance; the message names "
      "the\n"
      "first layer that diverges. ONNX Runtime runs in the Python interpreter that CAMSHAFT_PYTHON names (default:\n"
      "python3), which must have the packages numpy and onnxruntime.\n\n"
      "Examples:\n"
      "  camshaft verify model.onnx\n"
      "  camshaft verify model.onnx --against onnxruntime --shapes x:2x3x64x64");
  return {command, [arguments] { return verify(*arguments); }};
}

}  // namespace camshaft
