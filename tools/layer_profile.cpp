#include "tools/layer_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "tools/device_limits.h"
#include "tools/report.h"
#include "tools/tensor_text.h"

namespace camshaft::tools {

namespace {

double seconds_per_run(const LayerTime& layer) {
  return layer.runs > 0 ? layer.seconds / static_cast<double>(layer.runs) : 0;
}

// Ran once, before these runs: its results were kept.
bool is_done(const LayerTime& layer) {
  return layer.at_binding && layer.runs == 0;
}

double total_per_run(const std::vector<LayerTime>& layers) {
  double total = 0;
  for (const LayerTime& layer : layers) total += seconds_per_run(layer);
  return std::max(total, 1e-12);
}

// Of all layers, one after the other, at the limits of the device.
double total_bound(const LayerProfile& p) {
  double total = 0;
  for (size_t i = 0; i < p.costs.size(); ++i)
    if (!is_done(p.times[i])) total += p.costs[i].limit_seconds;
  return total;
}

}  // namespace

void print_profile(const LayerProfile& p) {
  const double total = total_per_run(p.times);
  const bool has_bounds = !p.limits.is_null();
  std::vector<size_t> order(p.times.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return seconds_per_run(p.times[a]) > seconds_per_run(p.times[b]); });
  std::vector<std::vector<std::string>> rows = {{"time", "%", "GFLOP/s", "GB/s"}};
  if (has_bounds) rows.back().emplace_back("of the limit");
  rows.back().insert(rows.back().end(), {"op", "tactic", "nodes of the model"});
  for (const size_t i : order) {
    const LayerTime& layer = p.times[i];
    const double seconds = seconds_per_run(layer), flops = p.costs[i].flops, bytes = p.costs[i].bytes();
    rows.push_back({is_done(layer) ? "at binding" : format_seconds(seconds),
                    is_done(layer) ? "" : fmt::format("{:.1f}", 100 * seconds / total),
                    flops > 0 && seconds > 0 ? fmt::format("{:.0f}", flops / seconds * 1e-9) : "",
                    bytes > 0 && seconds > 0 ? fmt::format("{:.3g}", bytes / seconds * 1e-9) : ""});
    if (has_bounds) {
      const LayerCost& bound = p.costs[i];
      rows.back().push_back(bound.limit_seconds > 0 && seconds > 0
                                ? fmt::format("{:.0f} % of {}", 100 * bound.limit_seconds / seconds, bound.limit)
                                : "");
    }
    rows.back().insert(rows.back().end(),
                       {layer.op, layer.tactic, layer.sources.empty() ? layer.name : join(layer.sources)});
  }
  fmt::print("\n{}", format_table(rows, {0, 1, 2, 3}));
  if (!has_bounds) return;
  fmt::print("limits of the device at its highest clock: {}\n",
             describe_limits(nlohmann::json::parse(p.limits.json())));
  if (total_bound(p) > 0)
    fmt::print("layer by layer at these a run would take {}; what is still in caches comes faster than from memory\n",
               format_seconds(total_bound(p)));
}

void add_profile(nlohmann::json& json, const LayerProfile& p) {
  const double total = total_per_run(p.times);
  if (!p.limits.is_null()) json["limits"] = nlohmann::json::parse(p.limits.json());
  json["layers"] = nlohmann::json::array();
  for (size_t i = 0; i < p.times.size(); ++i) {
    const LayerTime& layer = p.times[i];
    json["layers"].push_back({{"name", layer.name},
                              {"op", layer.op},
                              {"tactic", layer.tactic},
                              {"sources", layer.sources},
                              {"ms", seconds_per_run(layer) * 1e3},
                              {"percent", 100 * seconds_per_run(layer) / total},
                              {"at_binding", layer.at_binding}});
    const LayerCost& cost = p.costs[i];
    if (cost.known)
      json["layers"].back().update({{"flops", cost.flops},
                                    {"exponentials", cost.exponentials},
                                    {"constant_bytes", cost.constant_bytes},
                                    {"activation_bytes", cost.activation_bytes}});
    if (cost.limit_seconds > 0)
      json["layers"].back().update({{"limit", cost.limit}, {"limit_ms", cost.limit_seconds * 1e3}});
  }
}

}  // namespace camshaft::tools
