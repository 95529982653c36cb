// Which layers stay in floating point, so that a model in 8 bits is as good as somebody needs it.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "camshaft/builder.hpp"
#include "camshaft/tensor.hpp"
#include "tools/metric_script.h"
#include "tools/progress.h"

namespace camshaft::tools {

/// A layer, and what its 8 bits alone do to the model's outputs: the root of the mean squared difference beside that of
/// the outputs in floating point, the mean over outputs; 1 for one of integers or texts that differs.
struct LayerSensitivity {
  std::string layer;
  double error = 0;
};

/// An engine that was tried, with the most sensitive layers in floating point.
struct PrecisionPoint {
  size_t float_layers = 0;
  double score = 0;
  double seconds = 0;  ///< of a run of a batch of the data, the least of some
};

struct PrecisionSearch {
  std::vector<LayerSensitivity> layers;  ///< those that can be in 8 bits, the most sensitive first
  std::vector<PrecisionPoint> points;    ///< by the number of layers in floating point; the last has all of them
  size_t float_layers = 0;               ///< of the point that was chosen
  const PrecisionPoint& chosen() const;
};

struct PrecisionSearchOptions {
  std::string model;
  std::string calibration;  ///< a file of ranges
  BuildOptions build;       ///< with threads, shapes and rules of the caller's
  std::string precision;    ///< of 8 bits: int8, or fp8, for which the device has to have products
  /// Some batches of what the model's inputs are; not empty.
  std::function<std::vector<NamedTensors>(const std::vector<TensorInfo>& inputs)> batches;
};

/// Builds the model with each layer alone in 8 bits, orders layers by what that does to the outputs on the batches, and
/// looks by bisection for the fewest of the most sensitive ones that must stay in floating point for the score not to
/// drop further than it may. Kernels are chosen by estimate, so that each layer that may be is in 8 bits. Throws Error
/// like Builder::build() and MetricScript::score().
PrecisionSearch search_precisions(const PrecisionSearchOptions& options, const MetricScript& metric,
                                  const ScoreDrop& most, Progress& progress);

nlohmann::json to_json(const PrecisionSearch& search);

}  // namespace camshaft::tools
