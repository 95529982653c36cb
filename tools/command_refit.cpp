// camshaft refit: an engine with other weights.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/refitter.hpp"
#include "tools/commands.h"
#include "tools/named_file.h"
#include "tools/number_option.h"
#include "tools/open_engine.h"
#include "tools/report.h"
#include "tools/seconds_since.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

namespace {

struct RefitArguments {
  std::string engine, weights, output, threads;
  std::vector<std::string> lora;
  bool lists = false, json = false;
};

nlohmann::json weight_json(const EngineWeight& weight) {
  return {{"name", weight.name},
          {"dtype", to_string(weight.dtype)},
          {"dims", weight.dims},
          {"fixed_by", weight.fixed_by},
          {"layers", weight.layers}};
}

int list_weights(const RefitArguments& arguments, const Refitter& refitter) {
  nlohmann::json list = nlohmann::json::array();
  for (const EngineWeight& weight : refitter.weights()) {
    list.push_back(weight_json(weight));
    if (arguments.json) continue;
    fmt::print("{}: {}[{}]{}\n", weight.name, to_string(weight.dtype), fmt::join(weight.dims, ", "),
               weight.fixed_by.empty() ? "" : " (fixed: " + weight.fixed_by + ")");
  }
  if (arguments.json) print_json({{"engine", arguments.engine}, {"weights", list}});
  return 0;
}

int refit_command(const RefitArguments& arguments) {
  const std::string output = arguments.output.empty() ? arguments.engine : arguments.output;
  if (!Engine::is_engine_file(arguments.engine))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' is no engine; refit takes one that was built with --refit", arguments.engine));
  const Engine engine = Engine::load(arguments.engine);
  Refitter refitter(engine);
  if (arguments.lists) return list_weights(arguments, refitter);
  if (arguments.weights.empty() && arguments.lora.empty())
    throw Error(ErrorCode::invalid_argument, "--weights or --lora is required");
  check_distinct(arguments.weights, output);
  check_writable(output);
  const auto start = std::chrono::steady_clock::now();
  if (!arguments.weights.empty()) refitter.set_file(arguments.weights);
  for (const std::string& text : arguments.lora) {
    const auto [name, file] = parse_named_file(text, "--lora", "NAME=FILE");
    refitter.set_lora(name, file);
  }
  const double reading = seconds_since(start);
  int64_t replaced = 0, all = 0;
  for (const EngineWeight& weight : refitter.weights()) {
    ++all;
    replaced += weight.is_set ? 1 : 0;
  }
  refitter.refit(parse_threads(arguments.threads));
  const double refitting = seconds_since(start);
  engine.save(output);
  const double total = seconds_since(start);
  if (arguments.json) {
    print_json({{"engine", arguments.engine},
                {"output", output},
                {"replaced", replaced},
                {"initializers", all},
                {"seconds", {{"read", reading}, {"refit", refitting - reading}, {"write", total - refitting}}}});
  } else {
    fmt::print("engine    {}: {} of {} initializers replaced\n", output, replaced, all);
    fmt::print("time      {}: read {}, refit {}, write {}\n", format_seconds(total), format_seconds(reading),
               format_seconds(refitting - reading), format_seconds(total - refitting));
  }
  return 0;
}

}  // namespace

Command add_refit_command(CLI::App& app) {
  auto arguments = std::make_shared<RefitArguments>();
  CLI::App* command = app.add_subcommand("refit", "Replace the weights of an engine that was built with --refit");
  command->add_option("ENGINE", arguments->engine, "The engine file")->required();
  command
      ->add_option("--weights", arguments->weights,
                   "The new weights by the names of the model's initializers: a model (.onnx), .safetensors or .npz")
      ->type_name("FILE");
  command
      ->add_option("--lora", arguments->lora,
                   "Another adapter in the place of one that the engine was built with; may be given several times")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  command->add_option("-o,--output", arguments->output, "The new engine file (default: ENGINE itself)")
      ->type_name("OUT");
  command->add_option("--threads", arguments->threads, "Threads to refit with (default: one for each core)")
      ->type_name("N");
  command->add_flag("--list", arguments->lists, "Only print which initializers there are, and which can be replaced");
  command->add_flag("--json", arguments->json, "Print the report as JSON");
  command->footer(
      "The engine is then the one that a build of the new model would give with the same lock file, byte for byte;\n"
      "nothing is measured and nothing verified. An engine that was built with --strip-weights has no weights before\n"
      "it is refitted, and needs all of them. What cannot be replaced, the report of the build and --list say.\n\n"
      "Examples:\n"
      "  camshaft build model.onnx --refit\n"
      "  camshaft refit model.engine --weights finetuned.onnx -o finetuned.engine");
  return {command, [arguments] { return refit_command(*arguments); }};
}

}  // namespace camshaft::tools
