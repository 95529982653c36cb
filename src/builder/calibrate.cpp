#include "builder/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <set>

#include "base/available_cores.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "base/out_of_memory.h"
#include "base/parallel.h"
#include "base/seconds_since.h"
#include "base/text/name_list.h"
#include "base/work_scope.h"
#include "builder/build_budget.h"
#include "builder/build_inputs.h"
#include "builder/build_tuning.h"
#include "builder/compile_graph.h"
#include "builder/quantize_model.h"
#include "builder/watched_graph.h"
#include "compile/tune/settle_chains.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "optimize/pipeline.h"
#include "quantize/migrate_channels.h"
#include "quantize/place_quantization.h"
#include "quantize/place_result_quantization.h"
#include "quantize/step_parameters.h"
#include "quantize/watched_tensors.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"

namespace camshaft {

namespace {

// Fewer samples say little of what is rare; NVIDIA and ModelOpt take some 500 pictures.
constexpr int64_t few_samples = 32;

struct WatchedEngine {
  Engine engine;
  std::vector<WatchedValue> watched;
  std::map<std::string, ChannelAxis> channels;  // of the model's tensors
};

/// Where a value has a tensor's channels; none where it has none, or where its axes were split.
ChannelAxis axis_of(const WatchedTensor& tensor, const std::map<std::string, ChannelAxis>& channels) {
  const auto found = channels.find(tensor.name);
  if (found == channels.end() || tensor.axes.empty()) return {};
  return {tensor.axes[static_cast<size_t>(found->second.axis)], found->second.channels};
}

/// Of each value that of the first of its tensors that has any.
std::vector<ChannelAxis> watched_channels(const WatchedEngine& made) {
  std::vector<ChannelAxis> channels(made.watched.size());
  for (size_t w = 0; w < made.watched.size(); ++w)
    for (const WatchedTensor& tensor : made.watched[w].tensors)
      if (channels[w].channels == 0) channels[w] = axis_of(tensor, made.channels);
  return channels;
}

/// What the steps that a layer reads leave of a tensor as noise (see Calibration::noise).
float noise_of(const TensorRange& range, const std::vector<float>& channels, const cpu::NumberSummary& seen,
               const SignalPowers& powers) {
  const std::vector<float> factors = migration_factors(channels);
  const auto steps = steps_of(factors.empty() ? range : migrated_range(range, channels, factors));
  if (!steps) return 0;
  const double part = static_cast<double>(seen.finite() - seen.zeros) / static_cast<double>(seen.finite());
  return static_cast<float>(powers.noise(steps->scale, part));
}

WatchedEngine build_watched(const std::string& path, const BuildOptions& options,
                            const CalibrationOptions& calibration) {
  const auto progress = [&](std::string_view stage, double fraction) {
    options.cancellation.check("building");
    if (options.progress) options.progress(stage, fraction);
  };
  const std::shared_ptr<const Backend> backend = find_backend(options.device);
  ThreadPool pool(options.threads > 0 ? options.threads : std::max(1, backend->device().cores));
  const WorkScope cancellable(options.cancellation);
  progress("reading", 0);
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  onnx::ImportedModel imported =
      onnx::import_model(onnx::read_model(file->bytes(), file->path(), file, folder.empty() ? "." : folder.string()),
                         import_options(options.profiles));
  const std::shared_ptr<Budget> budget = make_budget(options, imported.graph);
  const WorkScope budgeted(options.cancellation, budget);
  check_operations(imported.graph, options, *budget);
  progress("optimising", 0.3);
  PassContext context{.pool = pool};
  context.cancellation = options.cancellation;
  const BackendPasses passes = backend->passes(context.storage, context.rounding);
  Graph& graph = imported.graph;
  run_passes(graph, passes.meaning, context);
  for (const Profile& profile : options.profiles) check_profile(graph, profile);
  prepare_quantization(graph, context);
  std::vector<std::string> tensors = tensors_to_calibrate(graph);
  if (tensors.empty())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' has nothing to calibrate: no tensor in it is an operand of what runs in int8", path));
  std::map<std::string, ChannelAxis> channels = channels_to_calibrate(graph);
  if (calibration.results) {
    std::set<std::string> all(tensors.begin(), tensors.end());
    for (std::string& name : results_to_calibrate(graph)) all.insert(std::move(name));
    tensors.assign(all.begin(), all.end());
  }
  WatchedGraph optimized = watched_graph(std::move(graph), std::move(tensors), passes, context);

  progress("compiling", 0.6);
  CompileOptions compile;
  compile.profiles = options.profiles;
  compile.cancellation = options.cancellation;
  compile.most_deviation = Deviation::specials;  // nothing checks what rounds more
  const ModelIdentity model{std::filesystem::path(path).filename().string(), to_hex(hash64(file->bytes()))};
  BuildTuning tuning(options, model, *backend, pool);
  SymbolBindings optimum;
  if (!options.profiles.empty()) optimum = bind_profile(optimized.graph, options.profiles.front());
  SettledGraph settled =
      settle_chains(optimized.graph, tuning.choose(optimized.graph, {optimum}, compile.most_deviation));
  compile.decisions = std::move(settled.decisions);
  return {compile_graph(std::move(settled.graph), backend, compile), std::move(optimized.watched), std::move(channels)};
}

/// "3 tensors are constant: 'a', 'b', 'c'"
class Finding {
 public:
  Finding(const char* of_one, const char* of_many) : of_one_(of_one), of_many_(of_many) {}
  void add(const std::string& name) { names_.push_back(name); }
  void tell(std::vector<std::string>& warnings) const {
    if (names_.size() == 1) warnings.push_back(fmt::format("one tensor {}: '{}'", of_one_, names_[0]));
    if (names_.size() > 1)
      warnings.push_back(fmt::format("{} tensors {}: {}", names_.size(), of_many_, name_list(names_)));
  }

 private:
  const char *of_one_, *of_many_;
  std::vector<std::string> names_;
};

std::vector<std::string> warnings_of(const CalibrationReport& report) {
  std::vector<std::string> warnings;
  if (report.samples < few_samples)
    warnings.push_back(fmt::format("only {} sample{}: some hundreds are usual, and too few miss what is rare",
                                   report.samples, report.samples == 1 ? " was given" : "s were given"));
  Finding absent("was never computed and has no range", "were never computed and have no range");
  Finding empty("had no finite number and has no range", "had no finite number and have no range");
  Finding special("had NaN or infinities, which its range leaves out",
                  "had NaN or infinities, which their ranges leave out");
  Finding zero("was always zero", "were always zero");
  Finding constant("was always the same number", "were always the same number");
  Finding noisy("has samples so quiet that 8 bits leave too little of them: what reads it stays in floating point",
                "have samples so quiet that 8 bits leave too little of them: what reads them stays in floating point");
  for (const auto& [name, noise] : report.calibration.noise)
    if (noise > most_noise) noisy.add(name);
  for (const CalibratedTensor& tensor : report.tensors) {
    const cpu::NumberSummary& seen = tensor.seen;
    if (seen.count == 0) {
      absent.add(tensor.name);
    } else if (seen.finite() == 0) {
      empty.add(tensor.name);
    } else {
      if (seen.finite() < seen.count) special.add(tensor.name);
      if (seen.zeros == seen.finite())
        zero.add(tensor.name);
      else if (seen.min == seen.max && seen.count > 1)
        constant.add(tensor.name);
    }
  }
  for (const Finding* finding : {&absent, &empty, &special, &zero, &constant, &noisy}) finding->tell(warnings);
  return warnings;
}

}  // namespace

CalibrationReport calibrate(const std::string& model_path, const BuildOptions& build,
                            const CalibrationOptions& calibration, const NextBatch& next) {
  if (!(calibration.percentile > 0 && calibration.percentile <= 100))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("percentile cannot be {}; give a number above 0, and 100 at most", calibration.percentile));
  if (build.threads < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("a calibration cannot have {} threads", build.threads));
  check_tuning_options(build);
  CalibrationReport report;
  auto start = std::chrono::steady_clock::now();
  const WatchedEngine made =
      name_out_of_memory([&] { return fmt::format("out of memory while building '{}'", model_path); },
                         [&] { return build_watched(model_path, build, calibration); });
  report.seconds_build = seconds_since(start);

  if (build.progress) build.progress("calibrating", 0.8);
  CollectOptions collect;
  collect.threads = build.threads;
  collect.extremes_only = calibration.method == CalibrationMethod::minmax;
  collect.cancellation = build.cancellation;
  collect.channels = watched_channels(made);
  const CollectedNumbers numbers = collect_numbers(made.engine, made.watched, next, collect);
  report.batches = numbers.batches;
  report.samples = numbers.samples;
  report.seconds_data = numbers.data_seconds;
  report.seconds_run = numbers.run_seconds;
  if (numbers.samples == 0)
    throw Error(ErrorCode::invalid_argument, "there is no calibration data: the source gave no sample");

  start = std::chrono::steady_clock::now();
  report.calibration.method = to_string(calibration.method);
  const auto has_range = [&](size_t w) { return numbers.histograms[w].summary().finite() > 0; };
  std::vector<TensorRange> ranges(made.watched.size());
  for_each_parallel(build.threads > 0 ? build.threads : available_cores(), ranges.size(), [&](size_t w) {
    build.cancellation.check("choosing ranges");
    if (has_range(w)) ranges[w] = calibrated_range(numbers.histograms[w], calibration.method, calibration.percentile);
  });
  for (size_t w = 0; w < ranges.size(); ++w)
    for (const WatchedTensor& tensor : made.watched[w].tensors) {
      const cpu::NumberSummary& seen = numbers.histograms[w].summary();
      report.tensors.push_back({tensor.name, ranges[w], seen});
      if (!has_range(w)) continue;
      Calibration& found = report.calibration;
      found.ranges[tensor.name] = ranges[w];
      const std::vector<float>& largest = numbers.channels[w].largest();
      const bool has_channels = !largest.empty() && axis_of(tensor, made.channels).channels == std::ssize(largest);
      if (has_channels && !migration_factors(largest).empty()) found.channels[tensor.name] = largest;
      found.noise[tensor.name] =
          noise_of(ranges[w], has_channels ? largest : std::vector<float>(), seen, numbers.powers[w]);
    }
  report.seconds_ranges = seconds_since(start);
  if (report.calibration.ranges.empty())
    throw Error(ErrorCode::invalid_argument,
                "the calibration data gives no tensor a finite number: look for NaN and infinities in it");
  report.warnings = warnings_of(report);
  if (build.progress) build.progress("done", 1);
  return report;
}

}  // namespace camshaft
