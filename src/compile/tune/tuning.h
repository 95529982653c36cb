// How a build chooses the kernel of each layer.
#pragma once

#include <cstdint>
#include <string>

namespace camshaft {

enum class Tuning {
  heuristic,  ///< by the cost model alone, without looking at a clock
  measure,    ///< the cost model picks a few candidates, the clock decides between them
  locked,     ///< as a lock file of an earlier build says
};

/// A way of running a layer that a build looked at.
struct TacticTrial {
  std::string tactic;        ///< with all its parameters: "gemm", "winograd(tile=4)"
  int64_t estimated_ns = 0;  ///< what the cost model expected on one thread
  int64_t measured_ns = -1;  ///< what the clock said on the threads of the build; -1: not measured
  bool refused = false;      ///< rounds more than the error budget of this build allows
  bool operator==(const TacticTrial&) const = default;
};

}  // namespace camshaft
