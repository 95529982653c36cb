// Runs of plugins' operators in memory of their own, with guard zones around everything that they may write.
#pragma once

#include <vector>

#include "ir/ops/plugin.h"

namespace camshaft {

/// What is run: a tactic, on the host or on a device (see PluginDeviceScope), or the plugin's reference evaluation.
struct PluginRunKind {
  bool reference = false;
  size_t tactic = 0;
  bool on_device = false;
};

/// Runs an operator on host tensors (undefined ones for operands that are left out). `dims` of each output, or null for
/// one whose size only running tells. Outputs and workspace lie between guard zones, on a device in its memory; inputs
/// are copies. Throws PluginViolation that names what was written beyond its end or before its begin, or that an
/// operand was written to; `fill` is what outputs are filled with before, so that elements which are not written show.
std::vector<Tensor> run_plugin(const ops::Plugin& op, const PluginInstance& instance, const std::vector<Tensor>& inputs,
                               const std::vector<TensorType>& types, const std::vector<const Dims*>& dims,
                               PluginRunKind kind, ThreadPool& pool, const Cancellation* cancellation,
                               std::byte fill = std::byte{0xa5});

/// How plugins are checked in this process: all off at first.
struct PluginChecks {
  /// Engines run them as run_plugin() does, too, which costs copies of all operands; on a device those that are loaded
  /// or built while it is set.
  bool guards = false;
  bool verify = false;  ///< builds run all of their tactics over many sizes first, see builder/verify_plugins.h
};
PluginChecks plugin_checks();
void set_plugin_checks(PluginChecks checks);

}  // namespace camshaft
