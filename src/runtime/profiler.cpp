#include "runtime/profiler.h"

namespace camshaft {

double Profiler::total_seconds() const {
  double total = 0;
  for (const LayerTime& layer : layers_) total += layer.seconds;
  return total;
}

void Profiler::reset() {
  layers_.clear();
}

void Profiler::keep_runs(size_t most) {
  runs_.clear();
  most_runs_ = most;
  clock_start_ = Clock::now();
}

}  // namespace camshaft
