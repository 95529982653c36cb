// A build's tuning: its options, files and report.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "builder/builder.h"
#include "builder/optimize_model.h"
#include "compile/tune/tuner.h"

namespace camshaft {

/// What identifies a model in a lock file.
struct ModelIdentity {
  std::string name;  ///< of the file, without folders
  std::string hash;  ///< of its bytes
};

/// Throws Error(invalid_argument) for options that are out of range or contradict each other.
void check_tuning_options(const BuildOptions& options);

class BuildTuning {
 public:
  /// Reads the files that the options name. Throws Error: io; invalid_argument for damaged files and for a lock file of
  /// another model or device.
  BuildTuning(const BuildOptions& options, const ModelIdentity& model, const Backend& backend, ThreadPool& pool);

  /// See Tuner::choose. What was measured is in the timing cache's file when this returns.
  std::vector<TacticDecision> choose(const Graph& graph, const std::vector<SymbolBindings>& optima, Deviation most);
  /// Whether all tactics may be chosen, see Deviation. A lock file had them checked by the build that wrote it.
  bool is_locked() const { return options_.tuning == Tuning::locked; }
  /// The layers that a lock file leaves in floating point; none without one.
  const KeptLayers& kept_layers() const { return kept_layers_; }
  /// Of these, where nothing is measured: what the lock file says, or int8.
  std::optional<LayerPrecision> low_precision(const std::vector<LayerPrecision>& allowed) const;
  std::string summary() const { return tuner_->summary(); }
  void report(BuildReport& report) const;
  /// Writes the lock file that the options ask for. Throws Error(io).
  void write_lock(const OptimizedModel& model, const SymbolBindings& optimum,
                  const std::vector<TacticDecision>& decisions) const;

 private:
  const BuildOptions& options_;
  ModelIdentity model_;
  const Backend& backend_;
  std::unique_ptr<Tuner> tuner_;
  KeptLayers kept_layers_;
  bool is_fp8_ = false;
};

}  // namespace camshaft
