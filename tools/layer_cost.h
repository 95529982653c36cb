// How much work each layer of an engine is.
#pragma once

#include <optional>
#include <vector>

#include "camshaft/engine.h"
#include "graph/tensor.h"
#include "ops/cost.h"

namespace camshaft {

/// For each layer, in the order of Engine::layers() and of a Profiler: its cost for inputs of these shapes; nullopt
/// where a size is known only after running. A layer that only copies has no operations.
std::vector<std::optional<ops::Cost>> layer_costs(const Engine& engine, const std::vector<Tensor>& inputs);

}  // namespace camshaft
