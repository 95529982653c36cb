// Operators of plugins, on a GPU.
#pragma once

#include "backends/cuda/tactic.h"
#include "ir/plugin.h"

namespace camshaft::cuda {

extern const CudaTactic plugin_tactic;

/// Runs a tactic of a plugin by itself, on operands in the host's memory, and waits for it: see set_plugin_detour().
void run_plugin_alone(const PluginInstance& instance, const std::string& who, const PluginCall& call,
                      const Workshop& workshop);

}  // namespace camshaft::cuda
