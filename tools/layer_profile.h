// Where the time of an engine goes, layer by layer, as `camshaft bench --profile` reports it.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "camshaft/profiler.hpp"
#include "camshaft/record.hpp"
#include "camshaft/report.hpp"

namespace camshaft::tools {

/// All in the order of Engine::layers().
struct LayerProfile {
  std::vector<LayerTime> times;
  std::vector<LayerCost> costs;
  /// Of an engine for a GPU what that can do at most: {memory_gbs, f32_gflops, half_gflops, tf32_gflops}, without those
  /// that are unknown; null of the host.
  Record limits;
};

/// A table, the slowest layer first, with what each does in a second and, on a device, what part of its limit that is.
void print_profile(const LayerProfile& profile);

/// "layers", in execution order, and "limits" of a device.
void add_profile(nlohmann::json& json, const LayerProfile& profile);

}  // namespace camshaft::tools
