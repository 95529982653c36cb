// Measuring several ways of running one region against each other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "compile/tune/contestant.h"
#include "compile/tune/model_bytes.h"

namespace camshaft {

class DeviceContest;

/// How cold a run through the model leaves its weights, in words: in which of the host's caches they all stay and,
/// where the backend has a device, whether the model stays in the device's. Times that were measured in one class say
/// little in another.
std::string cache_class(const Backend& backend, const ModelBytes& model);

/// Runs candidates in turns, each from the state that a model leaves behind: operands that the layer before has just
/// written are warm, weights and code are as cold as a run through the whole model makes them.
class Contest {
 public:
  /// As much memory as `model` says is walked between two measurements, up to the size of the caches.
  Contest(const Backend& backend, ThreadPool& pool, const ModelBytes& model, Cancellation cancellation);
  ~Contest();

  /// The least nanoseconds of each candidate over at least three rounds (candidates that are clearly slower leave
  /// early); -1 for those that cannot run at these sizes. Empty when the region cannot be measured at all: its sizes
  /// are not known before running, or it has operands that are no plain tensors. Throws Error(cancelled).
  std::vector<int64_t> measure(const RegionView& region, const std::vector<const Tactic*>& candidates);
  /// The same of what is ready already, all for the host or all for the device.
  std::vector<int64_t> measure(const RegionView& region, std::vector<Contestant> contestants);

 private:
  std::vector<int64_t> measure_on_host(const RegionView& region, const KernelShapes& shapes,
                                       std::span<Contestant> contestants);
  void walk();

  const Backend& backend_;
  ThreadPool& pool_;
  ModelBytes model_;
  Cancellation cancellation_;
  std::unique_ptr<DeviceContest> device_;  // once something runs there
  AlignedBuffer walked_;
  int64_t sum_ = 0;  // keeps the walk from being optimised away
};

}  // namespace camshaft
