#include "server/core/gpu_metrics.h"

#include <dlfcn.h>

#include <mutex>

namespace camshaft::server {

namespace {

// NVML's own names and types (nvml.h, which no package of Debian has): every function gives 0 for success.
using NvmlDevice = struct NvmlDeviceHandle*;
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUtilization {
  unsigned int gpu, memory;
};

class Nvml {
 public:
  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    int (*init)() = nullptr;
    const bool found = load(library, "nvmlInit_v2", init) && load(library, "nvmlDeviceGetCount_v2", count_) &&
                       load(library, "nvmlDeviceGetHandleByIndex_v2", handle_) &&
                       load(library, "nvmlDeviceGetUUID", uuid_) && load(library, "nvmlDeviceGetMemoryInfo", memory_) &&
                       load(library, "nvmlDeviceGetUtilizationRates", utilization_) &&
                       load(library, "nvmlDeviceGetPowerUsage", power_) &&
                       load(library, "nvmlDeviceGetEnforcedPowerLimit", limit_) &&
                       load(library, "nvmlDeviceGetTotalEnergyConsumption", energy_);
    ready_ = found && init() == 0;
  }

  std::vector<GpuFigures> figures() const {
    std::vector<GpuFigures> all;
    unsigned int count = 0;
    if (!ready_ || count_(&count) != 0) return all;
    for (unsigned int i = 0; i < count; ++i) {
      NvmlDevice device = nullptr;
      char uuid[96] = "";
      if (handle_(i, &device) != 0 || uuid_(device, uuid, sizeof uuid) != 0) continue;
      GpuFigures& gpu = all.emplace_back();
      gpu.uuid = uuid;
      NvmlMemory memory{};
      NvmlUtilization utilization{};
      unsigned int milliwatts = 0;
      unsigned long long millijoules = 0;
      // What one GPU does not have stays 0.
      if (memory_(device, &memory) == 0) gpu.memory_total = memory.total, gpu.memory_used = memory.used;
      if (utilization_(device, &utilization) == 0) gpu.utilization = utilization.gpu / 100.0;
      if (power_(device, &milliwatts) == 0) gpu.power_usage = milliwatts / 1000.0;
      if (limit_(device, &milliwatts) == 0) gpu.power_limit = milliwatts / 1000.0;
      if (energy_(device, &millijoules) == 0) gpu.energy = static_cast<double>(millijoules) / 1000.0;
    }
    return all;
  }

 private:
  template <class Function>
  static bool load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  }

  bool ready_ = false;
  int (*count_)(unsigned int*) = nullptr;
  int (*handle_)(unsigned int, NvmlDevice*) = nullptr;
  int (*uuid_)(NvmlDevice, char*, unsigned int) = nullptr;
  int (*memory_)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*utilization_)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*power_)(NvmlDevice, unsigned int*) = nullptr;
  int (*limit_)(NvmlDevice, unsigned int*) = nullptr;
  int (*energy_)(NvmlDevice, unsigned long long*) = nullptr;
};

}  // namespace

std::vector<GpuFigures> gpu_figures() {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static const Nvml& nvml = *new Nvml;  // stays: other threads may ask while the process ends
  return nvml.figures();
}

}  // namespace camshaft::server
