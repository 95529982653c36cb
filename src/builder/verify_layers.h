// Judging an engine layer by layer, where its outputs cannot, or where they say no more than that something is wrong.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "builder/engine_noise.h"
#include "builder/verification.h"
#include "ir/graph.h"
#include "runtime/engine.h"

namespace camshaft {

struct LayerRules {
  double tolerance = 1e-4;
  double rounding_noise = 0x1p-22;  ///< see VerifyOptions
  uint64_t seed = 0;
  Cancellation cancellation;
  double excused = usually_excused;           ///< see VerifyOptions
  const EngineNoise* engine_noise = nullptr;  ///< of this model and engine
};

struct LayersVerdict {
  /// Tensors that were compared: those that engine and model have in common, and the outputs, but for those that are
  /// empty or have no finite number.
  int64_t judged = 0;
  int64_t undecided = 0;  ///< those of them that one layer's own rounding moves too far to tell
  double worst = 0;       ///< error of the others as a part of what was allowed; above 1: failed
  std::string culprit;    ///< the first that failed, in the order of the model, in words
  /// Whether enough was decided: one tensor at least, and three of four, or all but one.
  bool tells() const { return undecided < judged && undecided <= std::max<int64_t>(1, judged / 4); }
};

/// Runs the engine once, and once the reference evaluation of `model` (the graph as imported), which takes over what
/// the engine computed wherever a tensor of that name was kept: so every layer is judged on the inputs that it had, and
/// no error grows from layer to layer. A tensor passes within the tolerance. The layers of those that differ by a
/// quarter of it or more are evaluated again with rounding noise, of their inputs, their operators' results and what
/// these sum up, and judged by what it does to them, and by what steps across edges that are near do (LayerError).
/// Layers behind the first 4 GiB of tensors are judged as one.
LayersVerdict verify_layers(const Graph& model, const Engine& engine, const std::vector<Tensor>& inputs,
                            const LayerRules& rules, ThreadPool& pool);

}  // namespace camshaft
