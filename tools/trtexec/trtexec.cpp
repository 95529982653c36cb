#include "tools/trtexec/trtexec.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "camshaft/builder.hpp"
#include "camshaft/calibration.hpp"
#include "camshaft/load_plugin.hpp"
#include "camshaft/logger.hpp"
#include "camshaft/system.hpp"
#include "tools/atomic_file.h"
#include "tools/input_file.h"
#include "tools/interrupt.h"
#include "tools/seconds_since.h"
#include "tools/trtexec/debug_tensors.h"
#include "tools/trtexec/measure.h"
#include "tools/trtexec/refit.h"
#include "tools/trtexec/settings.h"
#include "tools/trtexec/summary.h"

namespace camshaft::tools::trtexec {

namespace {

constexpr const char* version = "v101300";  // of TensorRT, whose flags and lines these are
constexpr int64_t profile_runs = 100;

using Clock = std::chrono::steady_clock;

std::string default_device() {
  const Record all = devices();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i]["kind"].text() == "cuda" && !all[i]["name"].text().empty() && all[i]["warning"].text().empty())
      return all[i]["device"].text();
  return "cpu";
}

// The ranges of some random inputs: as in trtexec's, what is measured is the speed, and results mean nothing.
void calibrate_on_random_inputs(const Settings& settings, const std::string& device, const std::string& output) {
  say('W', "--int8 without --calib: ranges are those of random inputs, and results are not to be relied on");
  CalibrationOptions options;
  options.set("device", device).set("tuning", "heuristic").set("format", "tensorrt").set("method", "minmax");
  for (const Profile& profile : settings.build.profiles) options.add_profile(profile);
  BuildOptions plain;
  plain.set("device", device).set("tuning", "heuristic").set("verify", false);
  for (const Profile& profile : settings.build.profiles) plain.add_profile(profile);
  const Engine engine = Builder(plain).build(settings.build.model);
  constexpr uint64_t batches = 4;
  uint64_t seed = 0;
  const auto next = [&](const std::vector<TensorInfo>&, NamedTensors& batch) {
    if (seed == batches) return false;
    batch = engine.sample_inputs(settings.inference.shapes, seed++);
    return true;
  };
  calibrate(settings.build.model, options, next, output);
}

BuildOptions build_options(const Settings& settings, const std::string& device) {
  const BuildSettings& build = settings.build;
  BuildOptions options;
  options.set("device", device).set("tuning", build.measures ? "measure" : "heuristic");
  options.set("fp16", build.fp16).set("bf16", build.bf16).set("best", build.best);
  options.set("int8", build.int8).set("fp8", build.fp8).set("strongly-typed", build.strongly_typed);
  options.set("refit", build.refit).set("strip-weights", build.strips_weights);
  if (device != "cpu" && !build.strongly_typed) options.set("tf32", build.tf32);
  if (!build.timing_cache.empty()) options.set("timing-cache", build.timing_cache);
  if (!build.constraints.empty()) options.set("precision-constraints", build.constraints);
  for (const std::string& name : build.debug_tensors) options.set("debug-tensors", name);
  for (const std::string& pair : build.layer_precisions) options.set("layer-precisions", pair);
  for (const std::string& pair : build.layer_output_types) options.set("layer-output-types", pair);
  for (const Profile& profile : build.profiles) options.add_profile(profile);
  options.set_cancellation(cancel_on_interrupt());
  return options;
}

// What a program asks for by a number, on a machine without a GPU: lines for one run there, too.
std::string device_of(const Settings& settings) {
  const std::string found = default_device();
  if (settings.device.empty()) return found;
  if (settings.device != "cuda:0" || found != "cpu") return settings.device;
  say('W', "--device=0: there is no GPU here, and the CPU takes its place");
  return found;
}

// Types of inputs and outputs are the model's: what was to be another one is said.
void tell_of_types(const char* flag, const std::vector<std::string>& wanted, const std::vector<TensorInfo>& infos) {
  for (size_t i = 0; i < std::min(wanted.size(), infos.size()); ++i)
    if (const std::string_view is = to_string(infos[i].dtype); wanted[i] != is)
      say('W', fmt::format("--{}: '{}' stays {}, as the model has it, where {} is asked for", flag, infos[i].name, is,
                           wanted[i]));
}

// What is too small for an engine becomes the least that it can run with, as TensorRT streams at any budget.
void set_weight_budget(const Engine& engine, const std::string& budget) {
  if (budget.empty()) return engine.set_weight_budget("");
  engine.set_weight_budget("100%");  // which puts the weights into a file, so that the least is known
  const int64_t least = engine.weight_streaming().least_budget;
  try {
    engine.set_weight_budget(budget);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument || least < 0) throw;
    say('W', fmt::format("--weightStreamingBudget: {} bytes, the least for this engine: {}", least, error.what()));
    engine.set_weight_budget(std::to_string(least));
  }
}

Engine build(const Settings& settings) {
  const std::string device = device_of(settings);
  say('I', "Start parsing network model.");
  const auto start = Clock::now();
  BuildOptions options = build_options(settings, device);
  std::string ranges = settings.build.calibration;
  const bool makes_ranges = settings.build.int8 && ranges.empty() && !settings.build.strongly_typed;
  if (makes_ranges) {
    ranges = std::filesystem::temp_directory_path() / fmt::format("camshaft-trtexec-{}.calibration", getpid());
    calibrate_on_random_inputs(settings, device, ranges);
  }
  if (!ranges.empty()) options.set("calibration", ranges);
  Builder builder(options);
  const Engine engine = builder.build(settings.build.model);
  if (makes_ranges) std::filesystem::remove(ranges);
  say('I', fmt::format("Engine built in {:.6g} sec.", seconds_since(start)));
  const double size = static_cast<double>(engine.save().size()) / (1 << 20);
  say('I', fmt::format("Created engine with size: {:.6g} MiB", size));
  if (!settings.save.empty()) engine.save(settings.save);
  tell_of_types("inputIOFormats", settings.build.input_types, engine.inputs());
  tell_of_types("outputIOFormats", settings.build.output_types, engine.outputs());
  set_weight_budget(engine, settings.weight_budget);
  return engine;
}

Engine load(const Settings& settings) {
  const auto start = Clock::now();
  LoadOptions options;
  options.set("device", settings.device.empty() ? "" : device_of(settings));
  // All that comes in at once is the largest budget, from which a smaller one follows without reading more.
  const bool streams = settings.refit_from.empty() && !settings.weight_budget.empty();
  if (streams) options.set("weight-budget", "100%");
  Engine engine = Engine::load(settings.load, options);
  if (streams) set_weight_budget(engine, settings.weight_budget);
  say('I', fmt::format("Engine deserialized in {:.6g} sec.", seconds_since(start)));
  return engine;
}

Tensor read_raw(const TensorInfo& info, const Dims& dims, const std::string& path) {
  const InputFile file(path);
  Tensor tensor(info.dtype, dims);
  if (file.bytes().size() != tensor.bytes())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("--loadInputs: '{}' has {} bytes, and input '{}' of {} needs {}", path, file.bytes().size(),
                            info.name, dims_text(dims), tensor.bytes()));
  std::memcpy(tensor.mutable_data(), file.bytes().data(), tensor.bytes());
  return tensor;
}

// In the order of the engine's inputs.
std::vector<Tensor> make_inputs(const Engine& engine, const InferenceSettings& settings) {
  const NamedTensors sampled = engine.sample_inputs(settings.shapes);
  std::vector<Tensor> inputs;
  for (const TensorInfo& info : engine.inputs()) {
    const auto made = std::ranges::find(sampled, info.name, &NamedTensors::value_type::first);
    const auto file = settings.inputs.find(info.name);
    if (file == settings.inputs.end()) {
      say('I', fmt::format("Using random values for input {}", info.name));
      inputs.push_back(made->second);
    } else {
      say('I', fmt::format("Using values loaded from {} for input {}", file->second, info.name));
      inputs.push_back(read_raw(info, made->second.dims(), file->second));
    }
    say('I',
        fmt::format("Input binding for {} with dimensions {} is created.", info.name, dims_text(inputs.back().dims())));
  }
  for (const auto& [name, path] : settings.inputs)
    if (std::ranges::find(engine.inputs(), name, &TensorInfo::name) == engine.inputs().end())
      throw Error(ErrorCode::invalid_argument, fmt::format("--loadInputs: the engine has no input '{}'", name));
  return inputs;
}

NamedTensors outputs_of(const Engine& engine, Context& context) {
  const std::vector<std::string> debug_tensors = debug_tensors_of(engine);
  NamedTensors outputs;
  for (const TensorInfo& info : engine.outputs()) {
    if (std::ranges::find(debug_tensors, info.name) != debug_tensors.end()) continue;
    const Tensor output = context.output(info.name);
    outputs.emplace_back(info.name, output.device().is_host() ? output : output.copy("cpu"));
  }
  return outputs;
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_json(const std::string& path, const nlohmann::json& json) {
  if (path.empty()) return;
  const std::string text = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  write_file(path, std::as_bytes(std::span(text)));
}

void write_raw(const std::string& name, const Tensor& tensor) {
  std::string file = name;
  std::ranges::replace(file, '/', '_');
  write_file(fmt::format("{}.{}.{}.raw", file, dims_text(tensor.dims()), camshaft::to_string(tensor.dtype())),
             tensor.span());
}

void infer(const Engine& engine, const Settings& settings) {
  const InferenceSettings& inference = settings.inference;
  const ReportSettings& report = settings.report;
  const std::vector<Tensor> inputs = make_inputs(engine, inference);
  Streams streams(engine, inputs, inference.streams, inference.data_transfers);
  say('I', "Starting inference");
  const Measured measured = streams.measure(inference);
  const NamedTensors outputs = outputs_of(engine, streams.first());
  for (const auto& [name, tensor] : outputs)
    say('I', fmt::format("Output binding for {} with dimensions {} is created.", name, dims_text(tensor.dims())));
  save_debug_tensors(engine, streams.first(), settings.debug);
  print_summary(measured, report, inference.streams, !engine.device().is_host());
  if (report.output) print_outputs(outputs);
  if (report.raw_bindings) {
    for (size_t i = 0; i < inputs.size(); ++i) write_raw(engine.inputs()[i].name, inputs[i]);
    for (const auto& [name, tensor] : outputs) write_raw(name, tensor);
  }
  write_json(report.export_times, times_json(measured));
  write_json(report.export_output, outputs_json(outputs));
  if (!report.profile && report.export_profile.empty()) return;
  const std::vector<LayerMilliseconds> layers = profile_layers(streams.first(), profile_runs);
  if (report.profile) print_profile(layers, profile_runs);
  write_json(report.export_profile, profile_json(layers, profile_runs));
}

void print_profiles(const Engine& engine) {
  for (size_t i = 0; i < engine.profiles().size(); ++i) {
    say('I', fmt::format("Optimization Profile {}:", i));
    for (const auto& [name, range] : engine.profiles()[i].inputs)
      say('I', fmt::format("  {}: min {}, opt {}, max {}", name, dims_text(range.min), dims_text(range.opt),
                           dims_text(range.max)));
  }
}

void execute(const Settings& settings) {
  if (settings.report.verbose) set_log_level(LogLevel::debug);
  if (settings.version_only) {
    const Engine engine = Engine::load(settings.load, settings.device);
    say('I', fmt::format("Camshaft plan version: {}", engine.metadata().at("camshaft")));
    return;
  }
  if (!settings.load.empty() && !settings.build.model.empty() && settings.refit_from != settings.build.model)
    say('W', fmt::format("--onnx={} is not read: --loadEngine gives the engine", settings.build.model));
  const Engine engine = settings.load.empty() ? build(settings) : load(settings);
  const ReportSettings& report = settings.report;
  if (!settings.refit_from.empty()) {
    set_weight_budget(engine, "");
    refit(engine, settings.refit_from);
    set_weight_budget(engine, settings.weight_budget);
  }
  if (report.refittable) print_refittable(engine);
  if (report.profiles) print_profiles(engine);
  if (report.layers) print_layers(engine);
  write_json(report.export_layers, layers_json(engine));
  if (settings.skips_inference || settings.times_loading) {
    say('I', "Skipped inference phase since --skipInference is added.");
    return;
  }
  infer(engine, settings);
}

std::string spelled(const Flag& flag) {
  if (!flag.value) return flag.name;
  return flag.value[0] == '[' ? fmt::format("{}[={}", flag.name, flag.value + 1)
                              : fmt::format("{}={}", flag.name, flag.value);
}

std::string help() {
  std::string text =
      "Usage: camshaft trtexec --onnx=<file> [flags]: builds an engine and measures it, as TensorRT's trtexec does\n";
  const auto list = [&](const char* title, FlagState state) {
    text += fmt::format("\n{}\n", title);
    for (const Flag& flag : all_flags()) {
      if (flag.state != state) continue;
      text += fmt::format("  --{:36} {}\n", spelled(flag), flag.text);
    }
  };
  list("Flags:", FlagState::works);
  list("Accepted, without effect:", FlagState::without_effect);
  list("Refused:", FlagState::refused);
  return text;
}

void end(const char* verdict, const std::string& line) {
  fmt::print("&&&& {} TensorRT.trtexec [TensorRT {}] # {}\n", verdict, version, line);
  std::fflush(stdout);
}

}  // namespace

int run(std::span<const std::string> arguments) {
  const std::string line = fmt::format("trtexec {}", fmt::join(arguments, " "));
  try {
    const GivenFlags flags = parse_flags(arguments);
    const Settings settings = read_settings(flags);
    for (const std::string& library : settings.plugins) load_plugin(library);
    if (settings.help || arguments.empty()) {
      fmt::print("{}", help());
      return arguments.empty() ? 1 : 0;
    }
    end("RUNNING", line);
    for (const Flag& flag : all_flags())
      if (flag.state == FlagState::without_effect && flags.contains(flag.name))
        say('I', fmt::format("--{} has no effect: {}", flag.name, flag.text));
    execute(settings);
    end("PASSED", line);
    return 0;
  } catch (const Error& error) {
    say('E', error.what());
  } catch (const std::exception& error) {
    say('E', fmt::format("internal error: {}", error.what()));
  }
  end("FAILED", line);
  return 1;
}

}  // namespace camshaft::tools::trtexec
