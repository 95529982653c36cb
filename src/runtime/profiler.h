// Where the time of a run goes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace camshaft {

/// Time of one layer (a step of the plan), added up over the runs since the last reset.
struct LayerTime {
  std::string name;                  ///< of the tensor it computes
  std::string op;                    ///< "conv", "matmul", "pointwise", …
  std::string tactic;                ///< how it was implemented
  std::vector<std::string> sources;  ///< the model's nodes it came from
  double seconds = 0;
  int64_t runs = 0;
  /// It depends on no input, and runs in the first run with a set of shapes alone; in all where its results are too
  /// large to be kept.
  bool at_binding = false;
};

/// Collects layer times of the contexts it is set on (Context::set_profiler). One context at a time.
class Profiler {
 public:
  /// In execution order.
  const std::vector<LayerTime>& layers() const { return layers_; }
  /// Seconds of all layers together.
  double total_seconds() const;
  void reset();

 private:
  friend class Executor;  // of the runtime, which fills it
  std::vector<LayerTime> layers_;
};

}  // namespace camshaft
