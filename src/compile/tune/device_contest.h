// Measuring several kernels of a device against each other.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/cancellation.h"
#include "base/thread_pool.h"
#include "compile/tune/contestant.h"
#include "compile/tune/model_bytes.h"

namespace camshaft {

/// Runs kernels in turns, many times in one recording, as a model launches them, from the state that a model leaves
/// behind: where all that it touches fits into the device's cache, everything is there; else weights are not, and what
/// the layer before has written is.
class DeviceContest {
 public:
  DeviceContest(const Backend& backend, ThreadPool& pool, const ModelBytes& model, Cancellation cancellation);
  ~DeviceContest();

  /// Whether one run through the model leaves nothing in the cache of the stopwatch's device for the next.
  static bool walks(const ModelBytes& model, const DeviceStopwatch& stopwatch);

  /// The least nanoseconds of each over several rounds (who is clearly slower leaves early); -1 for those that cannot
  /// run. Empty when the device cannot tell the time or has no memory for the operands. Throws Error(cancelled).
  std::vector<int64_t> measure(const RegionView& region, const KernelShapes& shapes, std::span<Contestant> contestants);

 private:
  class Stage;
  void warm_up();

  const Backend& backend_;
  ThreadPool& pool_;
  Cancellation cancellation_;
  std::unique_ptr<DeviceQueue> queue_;
  std::unique_ptr<DeviceStopwatch> stopwatch_;  // null: the device has none
  std::shared_ptr<std::byte> walked_;
  size_t walked_bytes_ = 0;  // 0: all fits into the cache
};

}  // namespace camshaft
