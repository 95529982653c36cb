#include "tools/device_limits.h"

#include <fmt/format.h>

#include <vector>

#include "tools/report.h"

namespace camshaft::tools {

std::string describe_limits(const nlohmann::json& limits) {
  std::vector<std::string> parts;
  if (const double memory = limits.value("memory_gbs", 0.0); memory > 0)
    parts.push_back(fmt::format("{:.0f} GB/s of memory", memory));
  const auto add = [&](const char* name, const char* type) {
    const double teraflops = limits.value(name, 0.0) * 1e-3;
    if (teraflops > 0) parts.push_back(fmt::format("{:.{}f} TFLOP/s in {}", teraflops, teraflops < 10 ? 1 : 0, type));
  };
  add("f32_gflops", "f32");
  add("half_gflops", "f16 and bf16");
  add("tf32_gflops", "TF32");
  return parts.empty() ? "unknown" : join(parts);
}

}  // namespace camshaft::tools
