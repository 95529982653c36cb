#include "server/core/own_metrics.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

using nlohmann::json;

bool is_metric_name(const std::string& name, bool colons) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::all_of(name.begin(), name.end(), [&](char c) {
    return c == '_' || (colons && c == ':') || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  });
}

std::string escaped(const std::string& text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

// A number, or the text of one that is not finite, which JSON has not.
double number_of(const json& value) {
  return value.is_string() ? std::strtod(value.get_ref<const std::string&>().c_str(), nullptr) : value.get<double>();
}

[[noreturn]] void refuse_metric(const std::string& name, const char* why) {
  throw ServerError(StatusCode::internal, "sent a metric '" + name + "' " + why);
}

std::string labels_of_metric(const std::string& family, const json& labels) {
  std::string text;
  for (const auto& [name, value] : labels.items()) {
    if (!is_metric_name(name, false)) refuse_metric(family, "whose labels have a name that none may have");
    text += (text.empty() ? "" : ",") + name + "=\"" + escaped(value.get<std::string>(), true) + "\"";
  }
  return text;
}

}  // namespace

OwnMetricFamilies own_metrics_of(const json& families) {
  OwnMetricFamilies all;
  for (const json& given : families) {
    const auto name = given.at("name").get<std::string>();
    if (!is_metric_name(name, true) || name.starts_with("nv_"))
      refuse_metric(name, "which is no name of a model's own");
    OwnMetricFamily& family = all[name];
    family.kind = given.at("kind").get<std::string>();
    family.description = escaped(given.at("description").get<std::string>(), false);
    if (family.kind != "counter" && family.kind != "gauge" && family.kind != "histogram")
      refuse_metric(name, "of an unknown kind");
    for (const json& one : given.at("metrics")) {
      OwnMetric& metric = family.metrics[labels_of_metric(name, one.at("labels"))];
      if (family.kind != "histogram") {
        metric.value = number_of(one.at("value"));
        continue;
      }
      metric.bounds = one.at("bounds").get<std::vector<double>>();
      metric.counts = one.at("counts").get<std::vector<uint64_t>>();
      metric.sum = number_of(one.at("sum"));
      if (metric.counts.size() != metric.bounds.size() + 1) refuse_metric(name, "whose buckets are not complete");
    }
  }
  return all;
}

void add_own_metrics(OwnMetricFamilies& all, const OwnMetricFamilies& added) {
  for (const auto& [name, family] : added) {
    OwnMetricFamily& into = all.try_emplace(name, OwnMetricFamily{family.kind, family.description, {}}).first->second;
    if (into.kind != family.kind) continue;  // another model's, which came first
    for (const auto& [labels, metric] : family.metrics) {
      const auto [at, is_new] = into.metrics.try_emplace(labels, metric);
      if (is_new || at->second.bounds != metric.bounds) continue;
      // What processes have counted adds up. What they show now does not: shares would be above 1.
      if (family.kind == "gauge")
        at->second.value = metric.value;
      else
        at->second.value += metric.value;
      at->second.sum += metric.sum;
      for (size_t i = 0; i < metric.counts.size(); ++i) at->second.counts[i] += metric.counts[i];
    }
  }
}

void OwnMetrics::set(const void* process, OwnMetricFamilies families) {
  const std::lock_guard lock(mutex_);
  by_process_[process] = std::move(families);
}

void OwnMetrics::drop(const void* process) {
  const std::lock_guard lock(mutex_);
  by_process_.erase(process);
}

void OwnMetrics::add_to(OwnMetricFamilies& all) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [process, families] : by_process_) add_own_metrics(all, families);
}

}  // namespace camshaft::server
