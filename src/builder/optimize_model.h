// From a model as the importer leaves it to a graph of regions.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "builder/builder.h"
#include "builder/precision.h"
#include "compile/backend.h"
#include "optimize/pipeline.h"
#include "quantize/calibration.h"

namespace camshaft {

/// A model in one choice of precisions.
struct OptimizedModel {
  Graph reference;  ///< what the engine computes, for the reference evaluation to judge it
  Graph graph;      ///< the same as regions and plain nodes
  PassNotes notes;
  std::vector<std::string> passes;
  std::vector<std::string> kept_f32;             ///< see BuildReport
  std::vector<LayerPlacement> quantized_layers;  ///< see BuildReport
  std::string precision;                         ///< what the engine may compute in, for people
  bool rounds_to_bf16 = false;                   ///< operands of products of f32, where that is faster
  bool sums_float8 = false;                      ///< in f32, of which a device may keep fewer bits
};

/// Warns of precisions that the options allow and the backend does not gain from, and of a calibration without int8 or
/// fp8.
void warn_of_unused(const BuildOptions& options, const Backend& backend);

/// Runs a backend's passes for one build. The options, the backend and the pool must outlive it.
class ModelOptimizer {
 public:
  /// Reads the calibration; throws what read_calibration() throws.
  ModelOptimizer(const BuildOptions& options, const Backend& backend, ThreadPool& pool);

  const Precision& precision() const { return precision_; }
  /// What layers may be placed in by a calibration: int8, fp8, both, or nothing.
  std::vector<LayerPrecision> low_precisions() const;
  /// Runs the passes that decide what a model means on this backend. To be called once, before run(). Throws
  /// Error(invalid_argument) where int8 or fp8 is asked for without a calibration, of a model that is not quantised
  /// itself. Warns where the model has 8-bit floats that the backend has no products of.
  void settle_meaning(Graph& model);
  /// The other passes on a copy of the model. With one of low_precisions(), layers are quantised but for those of
  /// `kept`.
  OptimizedModel run(const Graph& model, std::optional<LayerPrecision> low, const KeptLayers& kept);

 private:
  std::set<std::string> outputs_in_f32(const Graph& model) const;
  std::string precision_text(const std::vector<LayerPlacement>& layers) const;

  const BuildOptions& options_;
  ThreadPool& pool_;
  const Precision precision_;
  const bool has_int8_, has_float8_;  // kernels
  const PrecisionRules rules_, output_types_;
  const BackendPasses passes_;
  std::optional<Calibration> calibration_;
  PassRuns runs_;  // those that have settled the meaning
};

}  // namespace camshaft
