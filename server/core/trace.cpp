#include "server/core/trace.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "server/core/trace_exporter.h"
#include "server/core/trace_writer.h"

namespace camshaft::server {

namespace {

int64_t number_setting(const std::string& name, const std::vector<std::string>& values, int64_t least, int64_t most) {
  int64_t number = 0;
  const std::string& text = values.front();
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (values.size() != 1 || read.ec != std::errc() || read.ptr != text.data() + text.size() || number < least ||
      number > most)
    throw ServerError(StatusCode::invalid_argument, "Unable to parse '" + name + "', value is out of range [ " +
                                                        std::to_string(least) + ", " + std::to_string(most) +
                                                        " ], got: " + text.substr(0, 64));
  return number;
}

std::vector<std::string> level_setting(const std::vector<std::string>& values) {
  bool timestamps = false;
  for (const std::string& value : values) {
    if (value == "TENSORS")
      throw ServerError(StatusCode::unsupported,
                        "the trace level TENSORS is not supported: there are OFF and TIMESTAMPS");
    if (value != "OFF" && value != "TIMESTAMPS" && value != "MIN" && value != "MAX")
      throw ServerError(StatusCode::invalid_argument, "Unable to parse 'trace_level', got: " + value.substr(0, 64) +
                                                          ": there are OFF and TIMESTAMPS");
    timestamps |= value != "OFF";
  }
  return {timestamps ? "TIMESTAMPS" : "OFF"};
}

void apply_setting(TraceSettings& settings, const std::string& name, const std::vector<std::string>& values) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  if (values.empty()) return;
  if (name == "trace_level")
    settings.level = level_setting(values);
  else if (name == "trace_rate")
    settings.rate = static_cast<uint32_t>(number_setting(name, values, 0, most));
  else if (name == "trace_count")
    settings.count = number_setting(name, values, -1, most);
  else if (name == "log_frequency")
    settings.log_frequency = static_cast<uint32_t>(number_setting(name, values, 0, most));
}

uint64_t trace_nanoseconds(Clock::time_point time) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

// The two objects of a request: what it is, and when it was where.
std::string traced_objects(const Request& request, const Timeline& timeline, Clock::time_point end) {
  using nlohmann::ordered_json;
  ordered_json what = {{"id", std::stoull(request.trace_id)}, {"model_name", request.model}};
  int64_t version = 0;
  std::from_chars(request.version.data(), request.version.data() + request.version.size(), version);
  what["model_version"] = version;
  if (!request.id.empty()) what["request_id"] = request.id;
  const Clock::time_point begin = timeline.received == Clock::time_point() ? timeline.queued : timeline.received;
  ordered_json times = ordered_json::array();
  const auto add = [&](const char* name, Clock::time_point time) {
    if (time != Clock::time_point()) times.push_back({{"name", name}, {"ns", trace_nanoseconds(time)}});
  };
  add("REQUEST_START", begin);
  add("QUEUE_START", timeline.queued);
  add("COMPUTE_START", timeline.compute_start);
  add("COMPUTE_INPUT_END", timeline.input_end);
  add("COMPUTE_OUTPUT_START", timeline.output_start);
  add("COMPUTE_END", timeline.compute_end);
  add("INFER_RESPONSE_COMPLETE", end);
  add("REQUEST_END", end);
  const ordered_json when = {{"id", what["id"]}, {"timestamps", std::move(times)}};
  return what.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "," + when.dump();
}

}  // namespace

TraceSettingsStore::TraceSettingsStore(TraceSettings settings)
    : start_([&] {
        settings.level = level_setting(settings.level);
        if (settings.mode != "triton" && settings.mode != "opentelemetry")
          throw ServerError(StatusCode::invalid_argument,
                            "unknown trace mode '" + settings.mode + "': there are triton and opentelemetry");
        return std::move(settings);
      }()),
      writer_(std::make_unique<TraceWriter>()) {
  if (start_.mode == "opentelemetry") exporter_ = std::make_unique<TraceExporter>(start_);
  active_ = start_.active();
}

TraceSettingsStore::~TraceSettingsStore() = default;

TraceSettings TraceSettingsStore::with_changes(const std::string& model) const {
  TraceSettings settings = start_;
  for (const std::string& name : {std::string(), model}) {
    const auto found = changes_.find(name);
    if (found == changes_.end()) continue;
    for (const auto& [setting, values] : found->second) apply_setting(settings, setting, values);
    if (model.empty()) break;
  }
  return settings;
}

TraceSettings TraceSettingsStore::get(const std::string& model) const {
  const std::lock_guard lock(mutex_);
  TraceSettings settings = with_changes(model);
  const auto counters = counters_.find(changes_.contains(model) ? model : "");
  if (settings.count >= 0 && counters != counters_.end())
    settings.count = std::max<int64_t>(0, settings.count - static_cast<int64_t>(counters->second.traced));
  return settings;
}

void TraceSettingsStore::update(const std::string& model,
                                const std::map<std::string, std::vector<std::string>>& settings) {
  TraceSettings checked;
  for (const auto& [name, values] : settings) apply_setting(checked, name, values);
  const std::lock_guard lock(mutex_);
  Changes& changes = changes_[model];
  for (const auto& [name, values] : settings) {
    if (values.empty())
      changes.erase(name);
    else
      changes[name] = values;
  }
  if (changes.empty()) changes_.erase(model);
  // A new count counts from now on.
  if (settings.contains("trace_count")) counters_[model].traced = 0;
  bool active = with_changes("").active();
  for (const auto& [name, own] : changes_) active |= with_changes(name).active();
  active_ = active;
}

void TraceSettingsStore::sample(Request& request) {
  if (!active_.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex_);
  const TraceSettings settings = with_changes(request.model);
  if (!settings.active() || settings.rate == 0) return;
  Counters& counters = counters_[changes_.contains(request.model) ? request.model : ""];
  if (counters.seen++ % settings.rate != 0) return;
  if (settings.count >= 0 && counters.traced >= static_cast<uint64_t>(settings.count)) return;
  ++counters.traced;
  request.trace_id = std::to_string(next_id_++);
}

void TraceSettingsStore::finished(const Request& request, const Timeline& timeline, Clock::time_point end) {
  if (request.trace_id.empty()) return;
  if (exporter_ != nullptr) return exporter_->add(request, timeline, end);
  const std::string objects = traced_objects(request, timeline, end);
  const std::lock_guard lock(mutex_);
  const TraceSettings settings = with_changes(request.model);
  if (!settings.file.empty()) writer_->write(settings.file, settings.log_frequency, objects);
}

}  // namespace camshaft::server
