// Operators of plugins, beside the engine that uses them: what they are judged by.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "base/device_id.h"
#include "compile/backend.h"
#include "ir/graph.h"

namespace camshaft {

/// The operators of plugins that a graph and its bodies have: "version 1.0 of libx.so, hash 0123456789abcdef" by names.
std::map<std::string, std::string> plugins_of(const Graph& graph);

/// Throws Error(unsupported), which names it, for one that a CPU cannot run, where the engine is for one.
void check_plugins_for(const Graph& graph, const DeviceInfo& device);

/// One line for each that has no reference evaluation: an engine is compared with its own plain run then.
std::vector<std::string> plugins_without_reference(const Graph& graph);

struct PluginVerifyOptions {
  double tolerance = 1e-4;  ///< largest difference, as a part of an output's largest magnitude
  uint64_t seed = 0;
  SymbolBindings optimum;  ///< sizes that are tried first
  /// Only those, and only where the operands are floats: what every build does before it measures, so that what writes
  /// where it must not is found before it runs without guards. Integers may be positions, which nobody can make up.
  bool briefly = false;
  DeviceId device;  ///< that the engine is for: bodies for a GPU run there, too
  /// Of one run. Operands have a million elements at most: one that takes longer does not return.
  std::chrono::milliseconds limit = std::chrono::seconds(60);
  Cancellation cancellation;
};

/// Runs every tactic of every such operator between guard zones against its reference evaluation (or its tactic 0 on
/// one thread), on seeded operands: of the sizes that the model gives, and with the sizes that it leaves open set to
/// small and odd numbers that leave tails of any vector. Returns one line for each operator, of what agreed. Throws
/// Error(verification_failed) that names the operator, the tactic, the shapes and what differs: a number, elements that
/// are not written, what is written beyond the outputs, or that it does not return. What a body for a device says
/// itself, as where its kernels do not compile, is thrown as it is.
std::vector<std::string> verify_plugins(const Graph& graph, const PluginVerifyOptions& options, int threads);

}  // namespace camshaft
