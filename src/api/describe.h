// What the library knows of engines and builds, as records.
#pragma once

#include <nlohmann/json.hpp>

#include "builder/builder.h"
#include "builder/rewrite_model.h"
#include "compile/backend.h"
#include "runtime/engine.h"
#include "runtime/profiler.h"

namespace camshaft::api {

nlohmann::json describe(const OutputError& error);
nlohmann::json describe(const LayerPlacement& layer);
nlohmann::json describe(const PrecisionGain& gain);
nlohmann::json describe(const BuildReport& report);
nlohmann::json describe(const RewriteReport& report);
nlohmann::json describe(const TensorInfo& info);
nlohmann::json describe(const Profile& profile);
nlohmann::json describe(const MemoryInfo& memory);
nlohmann::json describe(const WeightStreaming& streaming);
nlohmann::json describe(const LayerInfo& layer);
nlohmann::json describe(const LayerTime& layer);
nlohmann::json describe(const LayerSpan& layer);
nlohmann::json describe(const RunSpan& run);
/// {memory_gbs, f32_gflops, half_gflops, tf32_gflops}, without those that are unknown.
nlohmann::json describe(const DeviceLimits& limits);
nlohmann::json describe(const DeviceInfo& device);

/// A list of what describe() makes of each.
template <class Range>
nlohmann::json describe_all(const Range& range) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& item : range) list.push_back(describe(item));
  return list;
}

}  // namespace camshaft::api
