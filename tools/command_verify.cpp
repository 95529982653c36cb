// camshaft verify: an engine's results beside those of a judge.
#include <fmt/format.h>

#include <memory>

#include "tools/build_options.h"
#include "tools/commands.h"
#include "tools/judge.h"
#include "tools/open_engine.h"
#include "tools/progress.h"
#include "tools/report.h"
#include "tools/tuning_options.h"
#include "tools/verify_search.h"

namespace camshaft::tools {

namespace {

struct VerifyArguments : BuildArguments {
  std::string model, against = "reference", reduced;
  TuningArguments tuning;
  bool json = false, bisect = false;
  const CLI::Option* custom_ops = nullptr;  // --ort-custom-ops
};

int verify(const VerifyArguments& arguments) {
  Progress progress;
  BuildOptions options = arguments.options(progress);
  arguments.tuning.set(options);
  const bool searching = arguments.bisect || !arguments.reduced.empty();
  if (searching && !(arguments.tuning.lock.empty() && arguments.tuning.write_lock.empty()))
    throw Error(ErrorCode::invalid_argument,
                "--bisect and --reduce build other models than this one: no lock file fits them");
  const NamedShapes shapes = parse_shapes(arguments.shapes);
  if (!shapes.empty()) options.add_profile(fixed_profile(shapes));
  if (Engine::is_engine_file(arguments.model))
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("'{}' is an engine; verify takes the ONNX model, which says what is right", arguments.model));
  std::vector<NamedTensors> sets = arguments.read_inputs();
  if (sets.size() > 1)
    throw Error(ErrorCode::invalid_argument, "--inputs: verify judges on one file of inputs; run it once for each");
  const JudgedInputs given{sets.empty() ? NamedTensors() : std::move(sets.front()), &progress,
                           arguments.custom_ops->results()};
  options.set_inputs(given.inputs);
  const double tolerance = options.get("tolerance").number();
  const Judge who = arguments.against == "reference" ? Judge::reference : Judge::onnxruntime;
  if (arguments.bisect) {
    const std::string found = bisect_passes(arguments.model, who, options, given);
    progress.clear();
    fmt::print("{}\n", found);
    return 0;
  }
  if (!arguments.reduced.empty()) {
    const std::string inputs_file = reduced_inputs(arguments.reduced);
    if (inputs_file == arguments.reduced)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("--reduce: '{}' is the name of the inputs; the model's should end in .onnx", inputs_file));
    for (const std::string& written : {arguments.reduced, inputs_file}) {
      check_distinct(arguments.model, written);
      for (const std::string& read : arguments.inputs) check_distinct(read, written);
    }
    check_writable(arguments.reduced);
    const Reduction written = reduce(arguments.model, who, options, arguments.reduced);
    progress.clear();
    fmt::print("{}: {} of {} nodes still differ\n{}: its inputs\nTry: camshaft verify {} --inputs {} --against {}\n",
               written.model, written.nodes, written.nodes_before, written.inputs, written.model, written.inputs,
               arguments.against);
    return 0;
  }
  const Verdict verdict = judge(arguments.model, who, options, given);
  progress.clear();
  const bool passed = verdict.passed();
  if (arguments.json) {
    nlohmann::json json = {{"model", arguments.model},
                           {"against", arguments.against},
                           {"tolerance", tolerance},
                           {"passed", passed},
                           {"outputs", to_json(verdict.errors)}};
    if (!verdict.failure.empty()) json["failure"] = verdict.failure;
    if (!verdict.layers.empty()) json["layers"] = verdict.layers;
    print_json(json);
  } else {
    fmt::print("{} against {}, tolerance {:g} of each output's scale\n{}", arguments.model,
               arguments.against == "reference" ? "the reference evaluation" : "ONNX Runtime", tolerance,
               format_errors(verdict.errors));
    if (!verdict.layers.empty()) fmt::print("{}\n", verdict.layers);
  }
  if (passed) return 0;
  throw Error(ErrorCode::verification_failed, verdict.failure.empty()
                                                  ? fmt::format("'{}' differs from {}; see the outputs marked FAILED",
                                                                arguments.model, arguments.against)
                                                  : verdict.failure);
}

}  // namespace

Command add_verify_command(CLI::App& app) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command = app.add_subcommand("verify", "Compile a model in memory and compare its results with a judge's");
  arguments->custom_ops = app.get_option("--ort-custom-ops");
  command->add_option("MODEL", arguments->model, "The ONNX file")->required();
  command->add_option("--against", arguments->against, "reference (default): our own plain evaluation; or onnxruntime")
      ->type_name("JUDGE")
      ->check(CLI::IsMember({"reference", "onnxruntime"}))
      ->group("Verification");
  arguments->add_to(*command, "Shapes of the inputs to verify with; others are guessed");
  arguments->tuning.add_to(*command);
  command->add_flag("--bisect", arguments->bisect, "Name the optimiser pass after which the results differ")
      ->group("Search");
  command
      ->add_option("--reduce", arguments->reduced,
                   "Write the smallest part of the model that still differs, and its inputs beside it (.npz)")
      ->type_name("OUT.onnx")
      ->excludes("--bisect")
      ->group("Search");
  command->add_flag("--json", arguments->json, "Print the comparison as JSON");
  command->footer(
      "Judges the engine that `build` makes with the same options. Inputs are seeded random values. Exit code 4 says\n"
      "that an output is outside the tolerance; the message names the first layer that diverges. ONNX Runtime runs in\n"
      "the Python interpreter that CAMSHAFT_PYTHON names (default: python3), which must have the packages numpy and\n"
      "onnxruntime.\n\n"
      "Examples:\n"
      "  camshaft verify model.onnx\n"
      "  camshaft verify model.onnx --against onnxruntime --shapes x:2x3x64x64");
  return {command, [arguments] { return verify(*arguments); }};
}

}  // namespace camshaft::tools
