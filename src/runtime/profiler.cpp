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

}  // namespace camshaft
