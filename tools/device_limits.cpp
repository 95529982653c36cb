#include "tools/device_limits.h"

#include <fmt/format.h>

#include "tools/report.h"

namespace camshaft {

std::string describe(const DeviceLimits& limits) {
  std::vector<std::string> parts;
  if (limits.memory_bytes > 0) parts.push_back(fmt::format("{:.0f} GB/s of memory", limits.memory_bytes * 1e-9));
  const auto add = [&](double flops, const char* type) {
    if (flops > 0) parts.push_back(fmt::format("{:.{}f} TFLOP/s in {}", flops * 1e-12, flops < 1e13 ? 1 : 0, type));
  };
  add(limits.f32_flops, "f32");
  add(limits.half_flops, "f16 and bf16");
  add(limits.tf32_flops, "TF32");
  return parts.empty() ? "unknown" : join(parts);
}

nlohmann::json to_json(const DeviceLimits& limits) {
  nlohmann::json json = nlohmann::json::object();
  const auto add = [&](const char* name, double per_second) {
    if (per_second > 0) json[name] = per_second * 1e-9;
  };
  add("memory_gbs", limits.memory_bytes);
  add("f32_gflops", limits.f32_flops);
  add("half_gflops", limits.half_flops);
  add("tf32_gflops", limits.tf32_flops);
  return json;
}

}  // namespace camshaft
