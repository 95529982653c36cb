#include "server/top/figures.h"

#include <cmath>
#include <limits>

namespace camshaft::server {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Of the same version in the document of before; null: it was not there.
const json* find_statistics(const json& document, const json& model) {
  if (!document.is_object()) return nullptr;
  for (const json& other : document.at("models"))
    if (other.at("name") == model.at("name") && other.at("version") == model.at("version"))
      return other.contains("statistics") ? &other : nullptr;
  return nullptr;
}

// A model that was loaded again counts from 0.
uint64_t difference(uint64_t before, uint64_t now) {
  return now >= before ? now - before : now;
}

uint64_t counted(const json* model, const char* what) {
  return model == nullptr ? 0 : model->at("statistics").at(what).get<uint64_t>();
}

std::vector<uint64_t> counts_between(const json* before, const json& now) {
  auto counts = now.at("latency").at("counts").get<std::vector<uint64_t>>();
  if (before == nullptr) return counts;
  const auto old = before->at("latency").at("counts").get<std::vector<uint64_t>>();
  for (size_t i = 0; i < counts.size() && i < old.size(); ++i) counts[i] = difference(old[i], counts[i]);
  return counts;
}

std::map<int64_t, uint64_t> runs_between(const json* before, const json& statistics) {
  std::map<int64_t, uint64_t> old, runs;
  if (before != nullptr)
    for (const json& pair : before->at("statistics").at("batches")) old[pair.at(0).get<int64_t>()] = pair.at(1);
  for (const json& pair : statistics.at("batches")) {
    const auto size = pair.at(0).get<int64_t>();
    const uint64_t count = difference(old[size], pair.at(1).get<uint64_t>());
    if (count > 0) runs[size] = count;
  }
  return runs;
}

ModelFigures compare_model(const json* before, const json& now, double seconds) {
  ModelFigures model;
  model.name = now.at("name");
  model.version = now.at("version");
  model.state = now.at("state");
  model.reason = now.at("reason");
  model.loaded = now.contains("statistics");
  if (!model.loaded) return model;
  const json& statistics = now.at("statistics");
  const bool reloaded = before != nullptr && counted(before, "success") > statistics.at("success").get<uint64_t>();
  if (reloaded) before = nullptr;
  const auto since = [&](const char* what) {
    return difference(counted(before, what), statistics.at(what).get<uint64_t>());
  };
  model.waiting = statistics.at("pending");
  const uint64_t success = since("success"), executions = since("executions"), computed = since("computed");
  if (seconds > 0) {
    model.requests_per_second = static_cast<double>(success) / seconds;
    model.failures_per_second = static_cast<double>(since("fail")) / seconds;
  }
  const auto mean = [](uint64_t total, uint64_t count) -> std::optional<double> {
    if (count == 0) return std::nullopt;
    return static_cast<double>(total) / static_cast<double>(count);
  };
  model.batch = mean(since("inferences"), executions);
  model.queue_us = mean(since("queue_total_us"), computed);
  model.run_us = mean(since("compute_total_us"), computed);
  const auto bounds = now.at("latency").at("bounds_us").get<std::vector<double>>();
  const std::vector<uint64_t> counts = counts_between(before, now);
  model.p50_us = quantile_us(bounds, counts, 0.5);
  model.p99_us = quantile_us(bounds, counts, 0.99);
  model.runs = runs_between(before, statistics);
  for (const auto& [reason, count] : statistics.at("failures").items())
    if (count.get<uint64_t>() > 0) model.failures[reason] = count;
  return model;
}

// JSON has no infinity: what is above the last bound is null, as what there is none of.
json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? json(*value) : json();
}

}  // namespace

std::optional<double> quantile_us(const std::vector<double>& bounds_us, const std::vector<uint64_t>& counts,
                                  double share) {
  uint64_t total = 0;
  for (const uint64_t count : counts) total += count;
  if (total == 0) return std::nullopt;
  const double wanted = share * static_cast<double>(total);
  double seen = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto count = static_cast<double>(counts[i]);
    if (count == 0 || seen + count < wanted) {
      seen += count;
      continue;
    }
    if (i >= bounds_us.size()) break;
    const double low = i == 0 ? 0 : bounds_us[i - 1];
    return low + (bounds_us[i] - low) * (wanted - seen) / count;
  }
  return std::numeric_limits<double>::infinity();
}

Figures compare_looks(const json& before, const json& now) {
  Figures figures;
  figures.id = now.at("id");
  figures.version = now.at("version");
  figures.ready = now.at("ready");
  figures.uptime_s = now.at("uptime_s");
  const json& process = now.at("process");
  // A process of another number is another server at the same place.
  const bool same = before.is_object() && before.at("process").at("id") == process.at("id") &&
                    before.at("uptime_s").get<double>() < figures.uptime_s;
  const json nothing;
  const json& old = same ? before : nothing;
  figures.seconds = same ? figures.uptime_s - old.at("uptime_s").get<double>() : 0;
  const double seconds = same ? figures.seconds : figures.uptime_s;
  const double used = process.at("cpu_s").get<double>() - (same ? old.at("process").at("cpu_s").get<double>() : 0);
  figures.cores = seconds > 0 ? used / seconds : 0;
  figures.resident_bytes = process.at("resident_bytes");
  figures.machine_bytes = process.at("machine_bytes");
  figures.machine_cores = process.at("machine_cores");
  for (const json& model : now.at("models"))
    figures.models.push_back(compare_model(find_statistics(old, model), model, seconds));
  for (const json& error : now.at("errors")) figures.errors.push_back({error.at("time_ms"), error.at("message")});
  return figures;
}

ordered_json figures_json(const Figures& figures) {
  ordered_json models = ordered_json::array();
  for (const ModelFigures& model : figures.models) {
    ordered_json item = {
        {"name", model.name}, {"version", model.version}, {"state", model.state}, {"reason", model.reason}};
    if (model.loaded) {
      item["waiting"] = model.waiting;
      item["requests_per_second"] = model.requests_per_second;
      item["failures_per_second"] = model.failures_per_second;
      item["batch"] = number_or_null(model.batch);
      item["queue_us"] = number_or_null(model.queue_us);
      item["run_us"] = number_or_null(model.run_us);
      item["p50_us"] = number_or_null(model.p50_us);
      item["p99_us"] = number_or_null(model.p99_us);
      ordered_json runs = ordered_json::object(), failures = ordered_json::object();
      for (const auto& [size, count] : model.runs) runs[std::to_string(size)] = count;
      for (const auto& [reason, count] : model.failures) failures[reason] = count;
      item["runs_by_batch"] = std::move(runs);
      item["failures"] = std::move(failures);
    }
    models.push_back(std::move(item));
  }
  ordered_json errors = ordered_json::array();
  for (const RecentFailure& error : figures.errors)
    errors.push_back({{"time_ms", error.time_ms}, {"message", error.message}});
  return {{"id", figures.id},
          {"version", figures.version},
          {"ready", figures.ready},
          {"uptime_s", figures.uptime_s},
          {"seconds", figures.seconds},
          {"cores", figures.cores},
          {"resident_bytes", figures.resident_bytes},
          {"machine_bytes", figures.machine_bytes},
          {"machine_cores", figures.machine_cores},
          {"models", std::move(models)},
          {"errors", std::move(errors)}};
}

}  // namespace camshaft::server
