// Runs the steps of a bound plan.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "base/aligned_buffer.h"
#include "camshaft/cancellation.h"
#include "camshaft/profiler.h"
#include "camshaft/tensor.h"
#include "compile/bound_plan.h"
#include "runtime/recorded_steps.h"

namespace camshaft {

/// The memory of one context: arena, pointer tables, tensors of data-dependent size. Not thread-safe.
class Executor {
 public:
  /// `queue`: of the backend, for plans with steps on a device.
  Executor(const Plan& plan, int threads, std::unique_ptr<DeviceQueue> queue)
      : plan_(plan),
        pool_(threads),
        queue_(std::move(queue)),
        pointers_(plan.values.size()),
        dynamic_(plan.values.size()) {}

  /// Pointers of the caller: `inputs` and `outputs` in the plan's order; a null output is kept by the executor.
  struct Memory {
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    std::vector<size_t> output_bytes;
  };

  /// Allocates the arena and output buffers for `bound`; nothing when they are large enough.
  void reserve(const BoundPlan& bound);
  /// `recorded`: of these shapes, kept from run to run. Runs that are profiled or tapped go step by step.
  void run(const BoundPlan& bound, std::vector<RecordedSteps>& recorded, const Memory& memory);
  TensorView output(size_t index) const;

  ThreadPool& pool() { return pool_; }
  size_t memory_bytes() const;

  Profiler* profiler = nullptr;
  Cancellation cancellation;
  std::map<int32_t, std::function<void(const TensorView&)>> taps;  ///< by plan value

 private:
  void bind(const BoundPlan& bound, const Memory& memory);
  void run_named(const BoundPlan& bound, size_t s);
  void run_recorded(const BoundPlan& bound, RecordedSteps& steps);
  void record(const BoundPlan& bound, RecordedSteps& steps);
  void find_operands(const BoundPlan& bound, size_t s);
  void run_step(const BoundPlan& bound, size_t s);
  void run_dynamic_step(const BoundPlan& bound, size_t s);
  void wait_for_device();
  void call_taps(const BoundPlan& bound, const std::vector<int32_t>& values);
  std::byte* pointer(const BoundPlan& bound, int32_t value) const {
    return pointers_[static_cast<size_t>(plan_.root(value))] + bound.shift(value);
  }
  Tensor tensor(const BoundPlan& bound, int32_t value) const;
  Dims current_dims(const BoundPlan& bound, int32_t value) const;
  void finish_outputs(const BoundPlan& bound, const Memory& memory);

  const Plan& plan_;
  ThreadPool pool_;
  std::unique_ptr<DeviceQueue> queue_;
  AlignedBuffer arena_;
  std::shared_ptr<std::byte> device_arena_;
  size_t device_arena_bytes_ = 0;
  bool device_is_busy_ = false;  // with work that the host has not waited for
  std::vector<AlignedBuffer> own_outputs_;
  std::vector<std::byte*> pointers_;  // of each plan value that has storage
  std::vector<Tensor> dynamic_;       // of each plan value with Storage::dynamic
  SymbolBindings late_symbols_;       // the bound plan's and those found while running
  std::vector<const std::byte*> step_inputs_;
  std::vector<std::byte*> step_outputs_;
  std::byte* step_workspace_ = nullptr;
  std::vector<const std::byte*> recorded_operands_;
  std::vector<TensorView> results_;
};

}  // namespace camshaft
