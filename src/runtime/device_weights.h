// Weights that come from the host's memory to a GPU ahead of the layers that read them.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compile/plan/plan.h"

namespace camshaft {

/// Which constants of a GPU stay there, and where in a context's memory for the others each comes in.
struct DeviceStreamingPlan {
  /// What comes in for a step that reads some of them.
  struct Group {
    int32_t step = 0;
    std::vector<int32_t> values;
  };
  std::vector<Group> groups;  ///< in the order of the steps
  std::vector<bool> streams;  ///< of each value of the plan
  std::vector<size_t> offsets;
  size_t window_bytes = 0;  ///< of a context's memory for them: a step's, and beside them those of the next group
  size_t staying_bytes = 0;
  size_t loads_bytes = 0;  ///< that come in for each run
};

/// Bytes of the constants that steps of the plan read on the device.
size_t device_weight_bytes(const Plan& plan, DeviceId device);

/// The plan that brings in least with `staying_bytes + window_bytes` within the budget. Constants that several steps
/// read, and those of steps that run once for a set of shapes, stay. Where the budget is less than the least the plan
/// is the one with the least.
DeviceStreamingPlan plan_device_streaming(const Plan& plan, DeviceId device, size_t budget);

/// The constants that come in, in memory of the host that the device copies from by itself: all contexts' of an engine.
class DeviceWeights {
 public:
  /// Throws Error(out_of_memory).
  DeviceWeights(const Plan& plan, DeviceStreamingPlan streaming, DeviceQueue& queue);

  const DeviceStreamingPlan& plan() const { return streaming_; }
  std::span<const std::byte> on_host(int32_t value) const { return on_host_[static_cast<size_t>(value)]; }

 private:
  DeviceStreamingPlan streaming_;
  std::shared_ptr<std::byte> memory_;
  std::vector<std::span<const std::byte>> on_host_;  // of each value of the plan
};

/// Memory of a context for them, and the queue that copies beside the one that computes. While a group is computed
/// with, the next one is copied; moments in the queues keep the order, and the host waits for none of it.
class DeviceWeightStream {
 public:
  /// `computing` must outlive it.
  DeviceWeightStream(std::shared_ptr<const DeviceWeights> weights, DeviceQueue& computing,
                     std::unique_ptr<DeviceQueue> copying);
  ~DeviceWeightStream();

  /// Where a constant is when its step runs; null for one that stays.
  std::byte* place(int32_t value) const;
  /// A run begins that does without these steps.
  void start(const std::vector<bool>& left_out);
  /// What is put into the computing queue from now on waits for the step's weights.
  void before(size_t step);
  /// What was put there since needs them no more.
  void after(size_t step);

 private:
  void copy(size_t turn);

  std::shared_ptr<const DeviceWeights> weights_;
  DeviceQueue& computing_;
  std::unique_ptr<DeviceQueue> copying_;
  std::shared_ptr<std::byte> memory_;
  std::vector<std::unique_ptr<DeviceEvent>> here_, done_;  // of each group
  std::unique_ptr<DeviceEvent> run_done_;                  // the last group of the run before
  std::vector<size_t> turns_;                              // the groups of this run
  size_t copied_ = 0, computed_ = 0;                       // turns
};

}  // namespace camshaft
