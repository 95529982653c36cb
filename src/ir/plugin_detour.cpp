#include "ir/plugin_detour.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"

namespace camshaft {

namespace {

struct Detours {
  std::mutex mutex;
  std::map<DeviceId, PluginDetour> of;  // none goes, or changes
};

Detours& detours() {
  static auto* const all = new Detours;  // threads may outlive main()
  return *all;
}

thread_local DeviceId wanted;  // the host: any

const PluginDetour* detour() {
  Detours& all = detours();
  const std::lock_guard lock(all.mutex);
  const auto it = wanted.is_gpu() ? all.of.find(wanted) : all.of.begin();
  return it == all.of.end() ? nullptr : &it->second;
}

}  // namespace

void set_plugin_detour(DeviceId device, PluginDetour detour) {
  Detours& all = detours();
  const std::lock_guard lock(all.mutex);
  all.of.try_emplace(device, std::move(detour));
}

PluginDeviceScope::PluginDeviceScope(DeviceId device)
    : before_(std::exchange(wanted, device.is_gpu() ? device : wanted)) {}

PluginDeviceScope::~PluginDeviceScope() {
  wanted = before_;
}

const PluginDevice* detour_device() {
  const PluginDetour* const found = detour();
  return found ? &found->facts : nullptr;
}

void run_by_detour(const PluginInstance& instance, const std::string& who, const PluginCall& call, std::byte fill) {
  const PluginDetour* const found = detour();
  if (!found)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("{} has kernels for GPUs alone, and no GPU is in use: build and run it with a GPU (--device "
                    "cuda), or give it a function for the host, too",
                    who));
  found->run(instance, who, call, fill);
}

}  // namespace camshaft
