// How much work each layer of an engine is.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compile/backend.h"
#include "ir/ops/cost.h"
#include "ir/tensor.h"
#include "runtime/engine.h"

namespace camshaft::api {

/// For each layer, in the order of Engine::layers() and of a Profiler: its cost for inputs of these shapes; nullopt
/// where a size is known only after running. A layer that only copies has no operations.
std::vector<std::optional<ops::Cost>> layer_costs(const Engine& engine, const std::map<std::string, Dims>& inputs);
/// The same where the sizes that have names are these.
std::vector<std::optional<ops::Cost>> layer_costs(const Engine& engine, const SymbolBindings& symbols);

/// What a layer reads and writes: "name: f32[8, 64]".
struct LayerOperands {
  std::vector<std::string> inputs, outputs;
};

/// For each layer, for inputs of these shapes; what only running tells has its name.
std::vector<LayerOperands> layer_operands(const Engine& engine, const std::map<std::string, Dims>& inputs);

/// The least time that a device could take for a layer.
struct LayerBound {
  double seconds = 0;     ///< 0: the layer runs on the host, or what it would need to know is unknown
  std::string_view what;  ///< what decides: "memory", or the type of arithmetic, "f32", "tf32", "f16", …
};

/// For each layer of `costs`, which layer_costs() gave for the engine: its bytes and its operations at the limits of
/// the device, whichever takes longer. What another layer left in caches can come faster.
std::vector<LayerBound> layer_bounds(const Engine& engine, const std::vector<std::optional<ops::Cost>>& costs);

/// The same of one layer. `rounds`: to TF32.
LayerBound layer_bound(const ops::Cost& cost, bool rounds, const DeviceLimits& limits);

}  // namespace camshaft::api
