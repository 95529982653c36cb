#include "tools/page_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <limits>

#include "tools/explain.h"
#include "tools/input_file.h"
#include "tools/inspection.h"
#include "tools/interrupt.h"
#include "tools/layer_profile.h"
#include "tools/seconds_since.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

namespace {

using Clock = std::chrono::steady_clock;

// Of those that layers are timed in.
constexpr int64_t most_kept_runs = 256;

/// Runs for some seconds, once at least; the seconds of the fastest run, and how many there were.
std::pair<double, int64_t> run_for(Context& context, double seconds, const char* stage, Progress& progress) {
  double least = std::numeric_limits<double>::infinity();
  int64_t runs = 0;
  const auto start = Clock::now();
  do {
    progress.update(stage, seconds > 0 ? seconds_since(start) / seconds : 0);
    const auto before = Clock::now();
    context.run();
    least = std::min(least, seconds_since(before));
    ++runs;
  } while (seconds_since(start) < seconds);
  return {least, runs};
}

/// Of each layer the time of its fastest run, as that of whole runs is: means are the machine's other work, too.
void take_fastest(std::vector<LayerTime>& times, const std::vector<RunSpan>& runs) {
  std::vector<double> least(times.size(), std::numeric_limits<double>::infinity());
  for (const RunSpan& run : runs)
    for (const LayerSpan& span : run.layers)
      least[static_cast<size_t>(span.layer)] = std::min(least[static_cast<size_t>(span.layer)], span.seconds);
  for (size_t i = 0; i < times.size(); ++i)
    if (least[i] < times[i].seconds) times[i].seconds = least[i] * static_cast<double>(times[i].runs);
}

/// Layers are timed in runs of their own, so that reading the clock at each is not part of the run's time.
nlohmann::json measure(const PageRequest& request, bool from_model, const Engine& engine,
                       const std::vector<Tensor>& inputs, const NamedShapes& shapes, Progress& progress) {
  Context context = engine.create_context(request.limits.of_context(from_model, request.threads));
  context.set_cancellation(cancel_on_interrupt());
  for (size_t i = 0; i < inputs.size(); ++i) context.set_input(engine.inputs()[i].name, inputs[i]);
  context.run();
  run_for(context, request.seconds / 4, "warming up", progress);
  const auto [seconds, runs] = run_for(context, request.seconds / 2, "measuring", progress);
  Profiler profiler;
  context.set_profiler(&profiler);
  context.run();  // on a GPU the first one with a profiler records anew
  profiler.keep_runs(most_kept_runs);
  run_for(context, request.seconds / 2, "profiling", progress);
  context.set_profiler(nullptr);
  LayerProfile profile{profiler.layers(), engine.layer_costs(shapes), {}};
  take_fastest(profile.times, profiler.runs());
  for (size_t i = 0; i < profile.times.size(); ++i)
    if (profile.times[i].at_binding) profile.costs[i] = {};  // no work of a run
  if (!engine.device().is_host()) profile.limits = engine.device_info()["limits"];
  nlohmann::json json = {{"run_ms", seconds * 1e3}, {"runs", runs}};
  add_profile(json, profile);
  return json;
}

nlohmann::json parsed(const std::string& path) {
  const InputFile file(path);
  const auto* begin = reinterpret_cast<const char*>(file.bytes().data());
  nlohmann::json json = nlohmann::json::parse(begin, begin + file.bytes().size(), nullptr, false);
  if (!json.is_object() || !json.contains("verification"))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' is not the report of a build; 'camshaft build MODEL --json' prints one", path));
  return json;
}

nlohmann::json from(const Record& record) {
  return nlohmann::json::parse(record.json());
}

nlohmann::json tensor_errors(const PageRequest& request, const Engine& engine, const NamedTensors& inputs) {
  try {
    return from(engine.tensor_errors(request.model, inputs, request.tolerance, request.threads, cancel_on_interrupt()));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    throw Error(error.code(),
                fmt::format("'{}' is not the model that the engine was built of, or refuses the inputs: {}",
                            request.model, error.what()));
  }
}

}  // namespace

nlohmann::json page_data(const PageRequest& request, const OpenedEngine& opened, const std::vector<Tensor>& inputs,
                         Progress& progress) {
  const Engine& engine = opened.engine;
  NamedShapes shapes;
  NamedTensors named;
  nlohmann::json data = {{"title", std::filesystem::path(request.path).filename().string()},
                         {"inspection", inspection(request.path, opened)},
                         {"why", nlohmann::json::array()},
                         {"inputs", nlohmann::json::array()},
                         {"threads", request.threads > 0 ? request.threads : engine.device_info()["cores"].integer()},
                         {"device", from(engine.device_info())},
                         {"tolerance", request.tolerance}};
  for (const LayerInfo& layer : engine.layers()) data["why"].push_back(why(layer));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = engine.inputs()[i].name;
    shapes[name] = inputs[i].dims();
    named.emplace_back(name, inputs[i]);
    data["inputs"].push_back(
        fmt::format("{}: {}{}", name, camshaft::to_string(inputs[i].dtype()), to_string(inputs[i].dims())));
  }
  data["build"] = request.build_report.empty() ? nlohmann::json() : parsed(request.build_report);
  data["model"] = request.model.empty() ? nlohmann::json() : from(model_nodes(request.model));
  data["arena"] = from(engine.arena(shapes, request.threads));
  data["measured"] =
      request.measures ? measure(request, opened.from_model, engine, inputs, shapes, progress) : nlohmann::json();
  progress.update("comparing with the reference", 0);
  data["errors"] =
      request.model.empty() || !request.measures ? nlohmann::json() : tensor_errors(request, engine, named);
  return data;
}

}  // namespace camshaft::tools
