// Products of few rows with weights of few bits, which are read as narrow as they are.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "backends/cuda/codegen/weight_only_text.h"
#include "backends/cuda/tactics/weight_only_view.h"

namespace camshaft::cuda {

/// How the columns and k are shared out.
struct RowsChoice {
  int warps = 8;   ///< of a block, which has 16 columns
  int splits = 1;  ///< blocks that share columns, each a part of k
  double seconds = 0;

  TacticParameters parameters() const { return {{"warps", warps}, {"splits", splits}}; }
};

/// All that the product can be computed in, the best by the cost model first; empty where the device cannot multiply
/// such types or zero points.
std::vector<RowsChoice> rows_choices(const WeightOnlyView& view, double rows, const DeviceFacts& device);

/// The kernels of one product. Those for other numbers of rows, and for operands that lie anyhow, are made when the
/// first such come.
class CompiledRows {
 public:
  CompiledRows(const Workshop& workshop, const WeightOnlyView& view, const RowsChoice& choice,
               std::shared_ptr<const DeviceSteps> steps);

  const WeightOnlyView& view() const { return view_; }
  const DeviceSteps& steps() const { return *steps_; }
  const Device& device() const { return *device_; }
  int splits() const { return choice_.splits; }
  /// For so many rows of X.
  WeightOnlyForm form(int64_t rows) const;
  const Function& function(const WeightOnlyForm& form, bool aligned) const;
  /// Valid as long as this lives.
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const;

 private:
  std::shared_ptr<const Device> device_;  // outlives the functions
  const Workshop& workshop_;              // the backend's
  WeightOnlyView view_;
  RowsChoice choice_;
  std::shared_ptr<const DeviceSteps> steps_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int, bool>, Function> functions_;  // by tiles
};

}  // namespace camshaft::cuda
