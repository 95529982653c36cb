#include "tools/trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <map>
#include <nlohmann/json.hpp>
#include <span>

#include "tools/atomic_file.h"
#include "tools/report.h"

namespace camshaft::tools {

namespace {

using nlohmann::json;

/// The events of a trace, and the names of the tracks they are on.
class Events {
 public:
  explicit Events(const Trace& trace) : trace_(trace), layers_(trace.engine.layers()) {
    named("process_name", 0, "camshaft");
    for (size_t r = 0; r < trace.runs.size(); ++r) add_run(r);
  }

  json take() && { return std::move(events_); }

 private:
  void add_run(size_t r) {
    const RunSpan& run = trace_.runs[r];
    const int64_t thread = thread_track(run.thread);
    add(fmt::format("run {}", r), "run", thread, run.start, run.seconds, {{"inputs", trace_.inputs}});
    for (const LayerSpan& span : run.layers) {
      const LayerInfo& layer = layers_.at(static_cast<size_t>(span.layer));
      const std::string name = layer.sources.empty() ? layer.name : join(layer.sources);
      const int64_t track = span.device == "cpu" ? thread : device_track(span.device);
      add(name, layer.op, track, span.start, span.seconds, arguments(static_cast<size_t>(span.layer), r, span.seconds));
    }
  }

  json arguments(size_t index, size_t run, double seconds) const {
    const LayerInfo& layer = layers_[index];
    const LayerCost& cost = trace_.costs.at(index);
    json arguments = {{"run", run},
                      {"layer", index},
                      {"op", layer.op},
                      {"tactic", layer.tactic},
                      {"sources", layer.sources},
                      {"inputs", cost.known ? cost.inputs : layer.inputs},
                      {"outputs", cost.known ? cost.outputs : layer.outputs}};
    if (cost.known) arguments.update({{"flops", cost.flops}, {"bytes", cost.bytes()}});
    if (cost.known && seconds > 0)
      arguments.update({{"gflops", cost.flops / seconds * 1e-9}, {"gbs", cost.bytes() / seconds * 1e-9}});
    if (cost.limit_seconds > 0) arguments.update({{"bound", cost.limit}, {"bound_us", cost.limit_seconds * 1e6}});
    return arguments;
  }

  void add(const std::string& name, const std::string& category, int64_t track, double start, double seconds,
           json arguments) {
    events_.push_back({{"ph", "X"},
                       {"name", name},
                       {"cat", category},
                       {"pid", process_},
                       {"tid", track},
                       {"ts", start * 1e6},
                       {"dur", seconds * 1e6},
                       {"args", std::move(arguments)}});
  }

  void named(const char* what, int64_t track, const std::string& name) {
    events_.push_back({{"ph", "M"}, {"name", what}, {"pid", process_}, {"tid", track}, {"args", {{"name", name}}}});
  }

  int64_t thread_track(int64_t thread) {
    const auto [track, is_new] = tracks_.try_emplace(std::to_string(thread), thread);
    if (is_new)
      named("thread_name", thread,
            trace_.threads > 1 ? fmt::format("host, with {} threads that help", trace_.threads - 1) : "host");
    return thread;
  }

  /// Numbered as no thread is.
  int64_t device_track(const std::string& device) {
    constexpr int64_t beyond_threads = int64_t{1} << 30;
    const auto [track, is_new] = tracks_.try_emplace(device, beyond_threads + static_cast<int64_t>(tracks_.size()));
    if (is_new) named("thread_name", track->second, device + ", the stream of the runs");
    return track->second;
  }

  const Trace& trace_;
  const std::vector<LayerInfo> layers_;
  const int64_t process_ = ::getpid();
  std::map<std::string, int64_t> tracks_;
  json events_ = json::array();
};

}  // namespace

void write_trace(const std::string& path, const Trace& trace) {
  const json whole = {{"traceEvents", Events(trace).take()},
                      {"displayTimeUnit", "ms"},
                      {"otherData", {{"producer", "camshaft"}, {"threads", trace.threads}, {"inputs", trace.inputs}}}};
  const std::string text = whole.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace camshaft::tools
