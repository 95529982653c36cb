// What NVIDIA's driver says of its GPUs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace camshaft::server {

struct GpuFigures {
  std::string uuid;
  double utilization = 0;  ///< 0 to 1
  uint64_t memory_total = 0, memory_used = 0;
  double power_usage = 0, power_limit = 0;  ///< watts
  double energy = 0;                        ///< joules since the driver was loaded
};

/// Of each GPU; none where there is no driver. By NVML, which is loaded at the first call. Safe from several threads.
std::vector<GpuFigures> gpu_figures();

}  // namespace camshaft::server
