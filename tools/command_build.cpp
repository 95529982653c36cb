// camshaft build: a model becomes an engine file.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <utility>

#include "camshaft/builder.hpp"
#include "tools/build_options.h"
#include "tools/commands.h"
#include "tools/format_bytes.h"
#include "tools/interrupt.h"
#include "tools/number_option.h"
#include "tools/open_engine.h"
#include "tools/progress.h"
#include "tools/quantization_text.h"
#include "tools/report.h"
#include "tools/tensor_text.h"
#include "tools/tuning_options.h"

namespace camshaft::tools {

namespace {

struct BuildCommandArguments : BuildArguments {
  std::string model, output, stop_after;
  std::vector<std::string> debug_tensors, lora;
  ProfileTexts profiles;
  TuningArguments tuning;
  bool no_verify = false, refit = false, strip_weights = false, json = false;
};

std::string default_output(const std::string& model) {
  return std::filesystem::path(model).replace_extension(".engine").string();
}

void check_output(const std::string& model, const std::string& output) {
  check_distinct(model, output);
  check_writable(output);
}

std::string format_tuning(const BuildReport& report, const Engine& engine) {
  std::string text = engine.metadata().at("tuning");
  const auto add = [&](int64_t problems, const char* what) {
    if (problems > 0) text += fmt::format(", {} {}", problems, what);
  };
  add(report.problems_measured, "problems measured");
  add(report.problems_cached, "from the timing cache");
  add(report.problems_out_of_time, "left to the cost model: out of time (--tuning-seconds)");
  if (report.approximate_refused) text += "; approximate tactics refused: they took too much of the error budget";
  return text;
}

void print_verification(const BuildReport& report) {
  const std::string errors = format_errors(report.verification);
  for (size_t at = 0; at < errors.size();) {
    const size_t end = errors.find('\n', at);
    fmt::print("verify    {}\n", errors.substr(at, end - at));
    at = end + 1;
  }
  if (report.judged_tensors > 0)
    fmt::print("verify    {}\n", format_layers(report));
  else if (report.sensitivity > 0)
    fmt::print(
        "verify    the model amplifies rounding: operators whose results move by {:.1e} move its outputs by {:.1e}\n",
        report.rounding_noise, report.sensitivity);
  for (const std::string& sample : report.samples) fmt::print("verify    on {}\n", sample);
  for (const std::string& text : report.not_verified) fmt::print("verify    not on {}\n", text);
}

// What a precision costs, beside what it gains.
std::string cost_of(const PrecisionGain& gain) {
  std::string cost;
  if (gain.error) cost = fmt::format("outputs move by up to {:.1e} of their scale", *gain.error);
  if (gain.precision == "int8")
    return cost + (cost.empty() ? "" : "; ") + "needs a calibration, see `camshaft calibrate`";
  if (gain.error) return cost;
  return fmt::format("numbers are rounded to {} bits", gain.precision == "fp16" ? 11 : 8);
}

void print_gains(const std::vector<PrecisionGain>& gains) {
  std::string text;
  for (const PrecisionGain& gain : gains)
    text += fmt::format("{}{:.1f} times as fast with --{} ({})", text.empty() ? "" : ", ", gain.speedup, gain.precision,
                        cost_of(gain));
  fmt::print("hint      by estimate {}\n", text);
}

void print_refit(const BuildReport& report) {
  fmt::print("refit     {} initializers can be replaced\n", report.refittable);
  if (!report.not_refittable.empty())
    fmt::print("          {} cannot, as what the engine does was decided by them: {}\n", report.not_refittable.size(),
               format_some(report.not_refittable));
  if (!report.refit_costs.empty()) fmt::print("          not done for it: {}\n", format_some(report.refit_costs));
}

void print_build_summary(const BuildCommandArguments& arguments, const std::string& output, const BuildReport& report,
                         const Engine& engine, double seconds) {
  fmt::print("model     {}: {} nodes\n", arguments.model, report.model_nodes);
  std::error_code ignored;
  const auto size = std::filesystem::file_size(output, ignored);
  fmt::print("engine    {}: {} layers{}\n", output, report.layers, ignored ? "" : ", " + format_bytes(size));
  fmt::print("time      {}: import {}, optimise {}, tune {}, compile {}{}\n", format_seconds(seconds),
             format_seconds(report.seconds_import), format_seconds(report.seconds_optimize),
             format_seconds(report.seconds_tune), format_seconds(report.seconds_compile),
             arguments.no_verify ? "" : ", verify " + format_seconds(report.seconds_verify));
  fmt::print("tuning    {}\n", format_tuning(report, engine));
  fmt::print("memory    {}\n", format_memory(engine.memory()));
  if (!report.kept_f32.empty())
    fmt::print("precision {} stay fp32, fp16 cannot hold their numbers: {}\n",
               report.kept_f32.size() == 1 ? "one value must" : fmt::format("{} values must", report.kept_f32.size()),
               format_some(report.kept_f32));
  if (!report.quantized_layers.empty()) print_quantization(report.quantized_layers);
  if (arguments.no_verify) {
    if (arguments.fp16 && engine.metadata().at("precision").find("fp16") != std::string::npos)
      fmt::print("precision only constants were held against fp16's range: without verification no sample is run\n");
    fmt::print("verify    off\n");
  } else {
    print_verification(report);
  }
  if (arguments.refit || arguments.strip_weights) print_refit(report);
  for (const std::string& adapter : report.lora) fmt::print("lora      {}\n", adapter);
  if (!report.gains.empty()) print_gains(report.gains);
}

void print_build_report_json(const BuildCommandArguments& arguments, const std::string& output,
                             const BuildReport& report, const Engine& engine, double seconds) {
  nlohmann::json json = {{"model", arguments.model},
                         {"engine", output},
                         {"model_nodes", report.model_nodes},
                         {"layers", report.layers},
                         {"seconds",
                          {{"total", seconds},
                           {"import", report.seconds_import},
                           {"optimize", report.seconds_optimize},
                           {"tune", report.seconds_tune},
                           {"compile", report.seconds_compile},
                           {"verify", report.seconds_verify}}},
                         {"tuning",
                          {{"mode", engine.metadata().at("tuning")},
                           {"measured", report.problems_measured},
                           {"cached", report.problems_cached},
                           {"out_of_time", report.problems_out_of_time},
                           {"approximate_refused", report.approximate_refused}}},
                         {"memory", to_json(engine.memory())},
                         {"verified", !arguments.no_verify},
                         {"verification", to_json(report.verification)},
                         {"samples", report.samples},
                         {"not_verified", report.not_verified},
                         {"sensitivity", report.sensitivity},
                         {"judged_tensors", report.judged_tensors},
                         {"undecided_tensors", report.undecided_tensors},
                         {"kept_f32", report.kept_f32},
                         {"refittable", report.refittable},
                         {"not_refittable", report.not_refittable},
                         {"refit_costs", report.refit_costs},
                         {"lora", report.lora},
                         {"quantized_layers", to_json(report.quantized_layers)},
                         {"gains", to_json(report.gains)}};
  print_json(json);
}

int build(const BuildCommandArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  Progress progress;
  BuildOptions options = arguments.options(progress);
  options.set("verify", !arguments.no_verify).set("refit", arguments.refit);
  options.set("strip-weights", arguments.strip_weights);
  arguments.tuning.set(options);
  for (const std::string& adapter : arguments.lora) options.set("lora", adapter);
  for (const std::string& name : arguments.debug_tensors) options.set("debug-tensors", name);
  options.set("stop-after-pass", parse_whole(arguments.stop_after, "stop-after-pass", 0, 1000, -1));
  arguments.set_inputs(options);
  const std::vector<Profile> profiles = parse_profiles(arguments.profiles);
  for (const Profile& profile : profiles) options.add_profile(profile);
  const NamedShapes shapes = parse_shapes(arguments.shapes);
  if (!shapes.empty() && !profiles.empty())
    throw Error(ErrorCode::invalid_argument,
                "--shapes fixes the shapes; it cannot be combined with --min-shapes, --opt-shapes or --max-shapes");
  if (!shapes.empty()) options.add_profile(fixed_profile(shapes));

  const std::string output = arguments.output.empty() ? default_output(arguments.model) : arguments.output;
  if (Engine::is_engine_file(arguments.model))
    throw Error(ErrorCode::invalid_model,
                fmt::format("'{}' is an engine already; build takes an ONNX model", arguments.model));
  check_output(arguments.model, output);
  for (const std::string& read : arguments.inputs) check_distinct(read, output);
  const TuningArguments& tuning = arguments.tuning;
  check_distinct(tuning.lock, output);
  check_distinct(arguments.calibration, output);
  check_distinct(tuning.lock, tuning.timing_cache);
  for (const std::string& written : {tuning.timing_cache, tuning.write_lock}) {
    check_distinct(arguments.model, written);
    for (const std::string& read : arguments.inputs) check_distinct(read, written);
    check_distinct(arguments.calibration, written);
    check_writable(written);
  }
  check_one_purpose({output, tuning.timing_cache, tuning.write_lock});

  Builder builder(std::move(options));
  const Engine engine = builder.build(arguments.model);
  cancel_on_interrupt().check("building");
  progress.update("writing", 1);
  engine.save(output);
  progress.clear();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  (arguments.json ? print_build_report_json : print_build_summary)(arguments, output, builder.report(), engine,
                                                                   seconds);
  return 0;
}

}  // namespace

Command add_build_command(CLI::App& app) {
  auto arguments = std::make_shared<BuildCommandArguments>();
  CLI::App* command = app.add_subcommand("build", "Compile an ONNX model into an engine file, and verify it");
  command->add_option("MODEL", arguments->model, "The ONNX file")->required();
  command->add_option("-o,--output", arguments->output, "The engine file (default: MODEL with the ending .engine)")
      ->type_name("ENGINE");
  command->add_flag("--json", arguments->json, "Print the report as JSON");
  arguments->add_to(*command, "Tune for these shapes and accept no others");
  arguments->tuning.add_to(*command);
  command->add_flag("--no-verify", arguments->no_verify, "Do not compare the engine with the reference evaluation")
      ->group("Verification");
  const auto add_shapes = [&](const char* name, std::vector<std::string>& target, const char* help) {
    command->add_option(name, target, help)
        ->type_name("NAME:SHAPE[,NAME:SHAPE…]")
        ->allow_extra_args(false)
        ->group("Shapes");
  };
  add_shapes("--min-shapes", arguments->profiles.min, "Smallest shapes that the engine must take");
  add_shapes("--opt-shapes", arguments->profiles.opt, "Shapes to tune for");
  add_shapes("--max-shapes", arguments->profiles.max, "Largest shapes that the engine must take");
  command->add_flag(
      "--refit", arguments->refit,
      "Make an engine whose weights `camshaft refit` replaces; says which it cannot, and what that costs");
  command->add_flag("--strip-weights", arguments->strip_weights,
                    "The same, and save it without weights: a refit must bring them");
  command
      ->add_option(
          "--lora", arguments->lora,
          "An adapter of LoRA that runs may choose: a .safetensors file, or the folder that PEFT writes; may be "
          "given several times")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  command->add_option("--debug-tensors", arguments->debug_tensors, "Tensors to keep through fusion, as further outputs")
      ->type_name("NAME[,NAME…]")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->group("Debugging");
  command->add_option("--stop-after-pass", arguments->stop_after, "Run only the first N optimiser passes")
      ->type_name("N")
      ->group("Debugging");
  command->footer(
      "Without shapes an engine takes inputs of any size. --min-shapes, --opt-shapes and --max-shapes make a profile:\n"
      "kernels are chosen for the opt shapes, and sizes outside min and max are refused. Given several times, each "
      "time\n"
      "makes one more profile.\n"
      "Nothing is written unless the engine is complete and equals the reference within the tolerance, on seeded "
      "inputs\n"
      "of several sizes or on given ones (--inputs), or is not to be verified (--no-verify).\n\n"
      "Examples:\n"
      "  camshaft build resnet50.onnx\n"
      "  camshaft build bert.onnx -o bert.engine --min-shapes ids:1x1 --opt-shapes ids:8x128 --max-shapes ids:32x512");
  return {command, [arguments] { return build(*arguments); }};
}

}  // namespace camshaft::tools
