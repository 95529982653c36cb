// Where the time of an engine goes, layer by layer, as `camshaft bench --profile` reports it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "camshaft/profiler.h"
#include "tools/layer_cost.h"

namespace camshaft {

/// All in the order of Engine::layers().
struct LayerProfile {
  std::vector<LayerTime> times;
  std::vector<std::optional<ops::Cost>> costs;
  std::vector<LayerBound> bounds;  ///< empty for an engine of the host
  DeviceLimits limits;
};

/// A table, the slowest layer first, with what each does in a second and, on a device, what part of its limit that is.
void print_profile(const LayerProfile& profile);

/// "layers", in execution order, and "limits" of a device.
void add_profile(nlohmann::json& json, const LayerProfile& profile);

}  // namespace camshaft
