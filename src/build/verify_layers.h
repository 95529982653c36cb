// Judging an engine layer by layer, where its outputs cannot, or where they say no more than that something is wrong.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "camshaft/engine.h"
#include "graph/graph.h"

namespace camshaft {

struct LayerRules {
  double tolerance = 1e-4;
  double rounding_noise = 0x1p-22;  ///< see VerifyOptions
  uint64_t seed = 0;
  Cancellation cancellation;
};

struct LayersVerdict {
  int64_t judged = 0;     ///< tensors that were compared: those that engine and model have in common, and the outputs
  int64_t undecided = 0;  ///< those of them that one layer's own rounding moves too far to tell
  double worst = 0;       ///< error of the others as a part of what was allowed; above 1: failed
  std::string culprit;    ///< the first that failed, in the order of the model, in words
};

/// Four times what rounding does to a result may pass for correct; where that is more than this part of the result's
/// scale, or than the tolerance if that is larger, a wrong result could pass too, and comparing says nothing.
double most_telling(double tolerance);

/// Runs the engine once, and once the reference evaluation of `model` (the graph as imported), which takes over what
/// the engine computed wherever a tensor of that name was kept: so every layer is judged on the inputs that it had, and
/// no error grows from layer to layer. A tensor passes within the tolerance; those that do not are judged by up to two
/// more evaluations with rounding noise, on the engine's tensors too, within four times what that does to them.
/// Channels-last tensors of the engine are turned round. Keeps up to 4 GiB of the engine's tensors; layers behind that
/// are judged as one.
LayersVerdict verify_layers(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs,
                            const LayerRules& rules, ThreadPool& pool);

}  // namespace camshaft
