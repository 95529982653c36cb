// How much of an engine's weights is in memory at once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "compile/plan/plan.h"
#include "ir/graph.h"

namespace camshaft {

/// What a weight budget does to an engine. All figures are bytes.
struct WeightStreaming {
  int64_t weight_bytes = 0;      ///< that runs read, of an engine for a GPU in its memory; the next figure's among them
  int64_t streamable_bytes = 0;  ///< that lie in the engine's file as the kernels read them; for a GPU all
  int64_t least_budget = 0;      ///< -1 of an engine in memory, until it has a budget, and so a file
  int64_t automatic_budget = 0;  ///< what "auto" would be now
  int64_t budget = -1;           ///< below 0: there is none
  int64_t staying_bytes = 0;     ///< that stay once they were read; without a budget all
  int64_t window_bytes = 0;      ///< for those that come in; 0 where all stay
  int64_t loads_bytes = 0;       ///< that come in for each run
  int64_t brought_bytes = 0;     ///< that were read so far
  double waited_seconds = 0;     ///< that layers have waited for weights so far; on a GPU it is not known
};

/// A budget as it is written: "none" or nothing, "auto" (what is free, less the engine's arena and a tenth), "40%" of
/// the weights, or bytes: "1500000000", "1.5GB" (10^9), "1.5GiB" (2^30); K, M, G and T.
class WeightBudget {
 public:
  WeightBudget() = default;
  /// Throws Error(invalid_argument) that says what can be given.
  explicit WeightBudget(const std::string& text);

  bool is_none() const { return !bytes_ && !fraction_ && !is_automatic_; }
  int64_t bytes(int64_t weight_bytes, int64_t automatic) const;

 private:
  std::optional<int64_t> bytes_;
  std::optional<double> fraction_;
  bool is_automatic_ = false;
};

}  // namespace camshaft
