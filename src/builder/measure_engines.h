// How long engines take, and their layers: engines of the same model beside each other.
#pragma once

#include <vector>

#include "base/cancellation.h"
#include "ir/tensor.h"
#include "runtime/engine.h"
#include "runtime/profiler.h"

namespace camshaft {

struct EngineTimes {
  double seconds = 0;             ///< of a run, without a profiler
  std::vector<LayerTime> layers;  ///< of a run with one
};

/// The least of several runs on these inputs (in the order of the engines' inputs), and of each layer, for each engine.
/// The engines run in turn, so that what else the machine does meets all of them; up to 15 times each, less often where
/// that takes more than `seconds` in all. Throws what runs throw, and Error(cancelled).
std::vector<EngineTimes> measure_engines(const std::vector<const Engine*>& engines, const std::vector<Tensor>& inputs,
                                         int threads, double seconds, const Cancellation& cancellation);

}  // namespace camshaft
