// The tactics of plugins' operators.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "compile/backend.h"
#include "ir/plugin.h"

namespace camshaft {

/// The tactics of a region that is one operator of a plugin; empty for other regions. Seconds are the plugin's own, or
/// what its operands take at `seconds_per_byte`. `device`: those that run there, and not on the host.
std::vector<TacticOffer> plugin_offers(const RegionView& region, double seconds_per_byte,
                                       const PluginDevice* device = nullptr);

/// Which of an operator's tactics the parameters of one of these name.
size_t plugin_tactic_of(const TacticParameters& parameters);

/// The kernel of one of these, on the host.
std::shared_ptr<const Kernel> make_plugin_kernel(const RegionView& region, const TacticParameters& parameters);

/// What a backend does around a plugin's call on its device: calls it with the stream and the launcher of that run.
using OnPluginDevice =
    std::function<void(const LaunchArguments& arguments, const std::function<void(const PluginDevice&)>& call)>;
/// The kernel of one of these, on a device.
std::shared_ptr<const Kernel> make_device_plugin_kernel(const RegionView& region, const TacticParameters& parameters,
                                                        const PluginDevice& facts, OnPluginDevice on_device);

}  // namespace camshaft
