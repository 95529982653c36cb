// Which layers of a model gain from int8 or fp8, by the clock.
#pragma once

#include <functional>

#include "builder/optimize_model.h"
#include "runtime/engine.h"

namespace camshaft {

/// What choose_layers() asks a build for.
struct LayerContest {
  ModelOptimizer& optimizer;
  const Graph& model;  ///< its meaning settled
  std::function<Engine(const OptimizedModel& model)> compile;
  PrecisionRules rules = {};        ///< what 8 bits are asked of has them, whatever the clock says
  std::vector<Tensor> inputs = {};  ///< to run on, in the order of the model's inputs
  int threads = 1;
  double seconds = 10;  ///< for measuring, in all
  Cancellation cancellation = {};
};

/// Builds the model with all layers in int8 that can be, and with none, measures both layer by layer, and leaves in
/// floating point what int8 makes slower with its conversions. Gives the fastest of these three as a whole, so that an
/// engine that may use int8 is no slower than one that may not. The same of fp8; of both the faster engine, each
/// beside its own one without.
OptimizedModel choose_layers(LayerContest contest);

}  // namespace camshaft
