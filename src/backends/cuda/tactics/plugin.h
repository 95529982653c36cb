// Operators of plugins, on a GPU.
#pragma once

#include "backends/cuda/tactic.h"
#include "ir/plugin.h"

namespace camshaft::cuda {

extern const CudaTactic plugin_tactic;

/// What plugins are told of the device.
PluginDevice plugin_facts(const Workshop& workshop);
/// Runs a tactic of a plugin by itself, on operands in the host's memory, and waits for it: see PluginDetour.
void run_plugin_alone(const PluginInstance& instance, const std::string& who, const PluginCall& call, std::byte fill,
                      const Workshop& workshop);

}  // namespace camshaft::cuda
