// Runs of plugins' operators on a GPU, on operands in the host's memory.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "base/device_id.h"
#include "ir/plugin.h"

namespace camshaft {

/// What runs calls on a device, whose operands are in the host's memory.
struct PluginDetour {
  PluginDevice facts;  ///< with which sizes and tactics are asked
  /// Runs one and waits for it. Operands and workspace lie between guard zones there; the workspace is filled with
  /// `fill`. `who` is the plugin in messages.
  std::function<void(const PluginInstance& instance, const std::string& who, const PluginCall& call, std::byte fill)>
      run;
};
/// A backend whose device runs plugins says so once. The first one of a device stays, for the whole process.
void set_plugin_detour(DeviceId device, PluginDetour detour);

/// While one lives, the calling thread works for an engine on that device: its plugins' detours go there. Of the host:
/// they go where they did.
class PluginDeviceScope {
 public:
  explicit PluginDeviceScope(DeviceId device);
  ~PluginDeviceScope();
  PluginDeviceScope(const PluginDeviceScope&) = delete;
  PluginDeviceScope& operator=(const PluginDeviceScope&) = delete;

 private:
  DeviceId before_;
};

/// Of the device that the calling thread's scope names; without a scope, of the first one. Null: there is none.
const PluginDevice* detour_device();
/// Runs it there. Throws Error(unsupported) without a device.
void run_by_detour(const PluginInstance& instance, const std::string& who, const PluginCall& call,
                   std::byte fill = std::byte{0xa5});

}  // namespace camshaft
