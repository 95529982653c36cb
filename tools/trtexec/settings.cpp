#include "tools/trtexec/settings.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <map>

#include "camshaft/error.hpp"

namespace camshaft::tools::trtexec {

namespace {

Error wrong(std::string_view flag, std::string_view value, std::string_view wanted) {
  return {ErrorCode::invalid_argument, fmt::format("--{}={}: {}", flag, value, wanted)};
}

// Names may stand in quotes, as the shell leaves them.
std::string without_quotes(std::string text) {
  std::erase(text, '\'');
  return text;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(at, begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

class Reader {
 public:
  explicit Reader(const GivenFlags& flags) : flags_(flags) {}

  bool has(std::string_view name) const { return flags_.find(name) != flags_.end(); }
  /// The last value that was given.
  std::string text(std::string_view name) const {
    const auto found = flags_.find(name);
    return found == flags_.end() ? "" : found->second.back();
  }
  double number(std::string_view name, double otherwise, double least) const {
    if (!has(name)) return otherwise;
    const std::string value = text(name);
    double result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || !std::isfinite(result))
      throw wrong(name, value, "this is no number");
    if (result < least) throw wrong(name, value, fmt::format("at least {} is possible", least));
    return result;
  }
  int64_t whole(std::string_view name, int64_t otherwise, int64_t least) const {
    const double value = number(name, static_cast<double>(otherwise), static_cast<double>(least));
    if (value != std::floor(value) || value > 1e15) throw wrong(name, text(name), "a whole number is needed");
    return static_cast<int64_t>(value);
  }
  NamedShapes shapes(const std::string& name) const {
    return has(name) ? parse_shapes(without_quotes(text(name)), "--" + name) : NamedShapes();
  }
  /// "name:value" by name; the value is behind the last colon.
  std::vector<std::string> pairs(std::string_view name) const {
    std::vector<std::string> result;
    for (const std::string& part : split(without_quotes(text(name)), ',')) {
      if (part.find(':') == std::string::npos) throw wrong(name, part, "NAME:VALUE is needed");
      result.push_back(part);
    }
    return result;
  }

 private:
  const GivenFlags& flags_;
};

// One profile of all the shapes: those that follow a --profile are of the next, and each list has as many.
std::vector<Profile> profiles_of(const Reader& reader, const GivenFlags& flags) {
  const auto texts = [&](std::string_view name) {
    const auto found = flags.find(name);
    std::vector<std::string> values;
    for (size_t i = 0; found != flags.end() && i < found->second.size(); ++i)
      values.push_back(without_quotes(found->second[i]));
    return values;
  };
  const ProfileTexts given{texts("minShapes"), texts("optShapes"), texts("maxShapes")};
  if (!given.min.empty() || !given.opt.empty() || !given.max.empty()) return parse_profiles(given);
  const NamedShapes shapes = reader.shapes("shapes");
  return shapes.empty() ? std::vector<Profile>() : std::vector<Profile>{fixed_profile(shapes)};
}

// The types of "fp16:chw,int32:chw", in the order of the inputs or outputs, by Camshaft's names.
std::vector<std::string> types_of(const Reader& reader, const char* name) {
  const std::map<std::string, std::string, std::less<>> known{{"fp32", "f32"}, {"fp16", "f16"},  {"bf16", "bf16"},
                                                              {"int8", "i8"},  {"int32", "i32"}, {"int64", "i64"},
                                                              {"uint8", "u8"}, {"bool", "bool"}, {"fp8", "f8e4m3"}};
  std::vector<std::string> types;
  for (const std::string& format : split(reader.text(name), ',')) {
    const size_t colon = format.find(':');
    if (colon != std::string::npos && format.substr(colon) != ":chw")
      throw wrong(name, format, "inputs and outputs are row-major: TYPE:chw");
    const auto found = known.find(format.substr(0, colon));
    if (found == known.end())
      throw wrong(name, format, "fp32, fp16, bf16, int8, int32, int64, uint8 or bool is needed");
    types.push_back(found->second);
  }
  return types;
}

BuildSettings build_settings(const Reader& reader, const GivenFlags& flags) {
  BuildSettings build;
  build.model = reader.text("onnx");
  build.calibration = reader.text("calib");
  if (!reader.has("noBuilderCache")) build.timing_cache = reader.text("timingCacheFile");
  build.constraints = reader.text("precisionConstraints");
  build.profiles = profiles_of(reader, flags);
  build.layer_precisions = reader.pairs("layerPrecisions");
  build.layer_output_types = reader.pairs("layerOutputTypes");
  for (const std::string& name : split(without_quotes(reader.text("markDebug")), ','))
    build.debug_tensors.push_back(name);
  build.fp16 = reader.has("fp16");
  build.bf16 = reader.has("bf16");
  build.int8 = reader.has("int8");
  build.fp8 = reader.has("fp8");
  build.best = reader.has("best");
  build.tf32 = !reader.has("noTF32");
  build.strongly_typed = reader.has("stronglyTyped");
  build.refit = reader.has("refit");
  build.strips_weights = reader.has("stripWeights") || reader.has("stripAllWeights") || reader.has("weightless");
  const int64_t level = reader.whole("builderOptimizationLevel", 3, 0);
  if (level > 5) throw wrong("builderOptimizationLevel", std::to_string(level), "0 to 5 are possible");
  build.measures = level >= 2 && !reader.has("heuristic");
  const std::string sparsity = reader.text("sparsity");
  if (sparsity == "force") throw wrong("sparsity", sparsity, "there are no sparse kernels: disable or enable");
  if (!sparsity.empty() && sparsity != "enable" && sparsity != "disable")
    throw wrong("sparsity", sparsity, "disable, enable or force");
  build.input_types = types_of(reader, "inputIOFormats");
  build.output_types = types_of(reader, "outputIOFormats");
  return build;
}

InferenceSettings inference_settings(const Reader& reader) {
  InferenceSettings inference;
  inference.shapes = reader.shapes("shapes");
  for (const std::string& pair : reader.pairs("loadInputs")) {
    const size_t colon = pair.find(':');
    inference.inputs[pair.substr(0, colon)] = pair.substr(colon + 1);
  }
  inference.iterations = reader.whole("iterations", 10, 1);
  inference.warmup_ms = reader.number("warmUp", 200, 0);
  inference.duration_s = reader.number("duration", 3, -1);
  inference.sleep_ms = reader.number("sleepTime", 0, 0);
  inference.idle_ms = reader.number("idleTime", 0, 0);
  const char* streams = reader.has("streams") ? "streams" : "infStreams";
  constexpr int64_t most_streams = 1024;  // each with a thread
  const int64_t wanted = reader.whole(streams, 1, 1);
  if (wanted > most_streams)
    throw wrong(streams, std::to_string(wanted), fmt::format("at most {} are possible", most_streams));
  inference.streams = static_cast<int>(wanted);
  inference.data_transfers = !reader.has("noDataTransfers");
  return inference;
}

ReportSettings report_settings(const Reader& reader) {
  ReportSettings report;
  report.average_runs = reader.whole("avgRuns", 10, 1);
  if (reader.has("percentile")) {
    report.percentiles.clear();
    for (const std::string& part : split(reader.text("percentile"), ',')) {
      const GivenFlags one{{"percentile", {part}}};
      const double value = Reader(one).number("percentile", 0, 0);
      if (value > 100) throw wrong("percentile", part, "0 to 100 are possible");
      report.percentiles.push_back(value);
    }
  }
  report.verbose = reader.has("verbose");
  report.output = reader.has("dumpOutput");
  report.raw_bindings = reader.has("dumpRawBindingsToFile");
  report.profile = reader.has("dumpProfile");
  report.layers = reader.has("dumpLayerInfo");
  report.profiles = reader.has("dumpOptimizationProfile");
  report.refittable = reader.has("dumpRefit");
  report.export_times = reader.text("exportTimes");
  report.export_output = reader.text("exportOutput");
  report.export_profile = reader.text("exportProfile");
  report.export_layers = reader.text("exportLayerInfo");
  return report;
}

DebugSettings debug_settings(const Reader& reader) {
  DebugSettings debug;
  for (const std::string& pair : reader.pairs("saveDebugTensors")) {
    const size_t colon = pair.rfind(':');
    debug.files[pair.substr(0, colon)] = pair.substr(colon + 1);
  }
  for (const std::string& format : split(reader.text("saveAllDebugTensors"), ',')) {
    if (format != "summary" && format != "numpy" && format != "string" && format != "raw")
      throw wrong("saveAllDebugTensors", format, "summary, numpy, string or raw are possible");
    debug.formats.push_back(format);
  }
  return debug;
}

// Engines have no implicit batch, of which lines for older engines give the size.
void check_batch(const Reader& reader) {
  for (const auto& [name, instead] : {std::pair("batch", "--shapes"), std::pair("maxBatch", "--maxShapes")})
    if (reader.whole(name, 1, 1) != 1)
      throw wrong(name, reader.text(name), fmt::format("batches are explicit: give {}", instead));
}

std::string weight_budget(const Reader& reader) {
  const std::string value = reader.text("weightStreamingBudget");
  if (value.empty() || value == "-2") return "";
  if (value == "-1") return "auto";
  try {
    LoadOptions().set("weight-budget", value);
  } catch (const Error&) {
    throw wrong("weightStreamingBudget", value, "bytes, with B, K, M or G, a part as 40%, -1 or -2 are possible");
  }
  return value;
}

}  // namespace

Settings read_settings(const GivenFlags& flags) {
  const Reader reader(flags);
  Settings settings;
  settings.help = reader.has("help") || reader.has("h");
  if (settings.help) return settings;
  settings.build = build_settings(reader, flags);
  settings.inference = inference_settings(reader);
  settings.report = report_settings(reader);
  settings.debug = debug_settings(reader);
  check_batch(reader);
  for (const char* name : {"plugins", "staticPlugins", "dynamicPlugins"})
    if (const auto found = flags.find(name); found != flags.end())
      for (const std::string& file : found->second) settings.plugins.push_back(without_quotes(file));
  settings.load = reader.text("loadEngine");
  settings.save = reader.text("saveEngine");
  if (reader.has("device")) settings.device = fmt::format("cuda:{}", reader.whole("device", 0, 0));
  if (reader.has("cpuOnly")) settings.device = "cpu";
  settings.skips_inference = reader.has("skipInference") || reader.has("buildOnly");
  settings.times_loading = reader.has("timeDeserialize");
  settings.times_refit = reader.has("timeRefit");
  settings.refit_from = reader.text("refitFromOnnx");
  settings.weight_budget = weight_budget(reader);
  settings.version_only = reader.has("getPlanVersionOnly");
  if (settings.version_only && settings.load.empty())
    throw Error(ErrorCode::invalid_argument, "--getPlanVersionOnly needs the engine: --loadEngine=<file>");
  if (settings.build.model.empty() && settings.load.empty())
    throw Error(ErrorCode::invalid_argument, "Model missing or format not recognized: give --onnx or --loadEngine");
  if (settings.times_refit && settings.refit_from.empty()) settings.refit_from = settings.build.model;
  if (settings.times_refit && settings.refit_from.empty())
    throw Error(ErrorCode::invalid_argument, "--timeRefit: a loaded engine needs --refitFromOnnx=<file>");
  return settings;
}

}  // namespace camshaft::tools::trtexec
