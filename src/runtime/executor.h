// Runs the steps of a bound plan.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/cancellation.h"
#include "base/large_memory.h"
#include "base/thread_pool.h"
#include "base/trace.h"
#include "base/workers.h"
#include "compile/plan/bound_plan.h"
#include "runtime/arena_pool.h"
#include "runtime/caller_memory.h"
#include "runtime/kept_values.h"
#include "runtime/profiler.h"
#include "runtime/recorded_steps.h"
#include "runtime/tensor_view.h"
#include "runtime/weight_stream.h"

namespace camshaft {

/// A kernel reads so much of the host's memory about as fast as a copy is begun.
constexpr size_t most_small_bytes = size_t{8} << 10;

/// Where a run on a GPU goes, and whether it is waited for.
struct RunPlace {
  std::optional<void*> stream = {};  ///< of the caller's; without it the context's own
  bool waits = true;                 ///< for all to be done; else only where a step of the host needs it
};

/// The memory of one context: arenas, pointer tables, tensors of data-dependent size; and its queues. Not thread-safe.
class Executor {
 public:
  /// `queues`: one of each GPU that runs steps, or that has memory of the caller's. Callers' streams and memory are of
  /// the first one's GPU; what the others do begins and ends with what is in that stream. `arenas`: where the host's
  /// arena is borrowed for each run; null: it is the executor's own.
  Executor(const Plan& plan, std::shared_ptr<Workers> workers, int threads,
           std::vector<std::unique_ptr<DeviceQueue>> queues, ArenaPool* arenas);
  ~Executor();

  /// Whether reserve() would do nothing.
  bool has_room(const BoundPlan& bound) const;
  /// Allocates the arena and output buffers for `bound`; nothing when they are large enough.
  void reserve(const BoundPlan& bound);
  /// Memory for what the hoisted steps of `bound` compute.
  KeptValues make_kept_values(const BoundPlan& bound);
  /// Whether a run with them leaves out the hoisted steps.
  bool are_computed(const BoundPlan& bound, const KeptValues& kept) const {
    return !bound.hoists() || kept.computed_at == failures_;
  }
  /// `kept` and `recordings`: of these shapes, kept from run to run. Runs that are tapped go step by step. While the
  /// caller records the stream of `place`, the steps become a part of the recording, and memory on the device that they
  /// use is kept until the executor goes. Throws Error(invalid_argument) for steps that cannot be recorded.
  void run(const BoundPlan& bound, KeptValues& kept, Recordings& recordings, const CallerMemory& memory,
           const RunPlace& place = {});
  /// Goes on with another plan of the same steps over the same values: with other weights, or with such that come in
  /// (`stream`; null: all are there). All work must be done, and bound plans of the one before are of no use any more.
  void take(const Plan& plan, WeightStream* stream);
  /// Copies between the host's memory and that of the main GPU, or within one of both, behind the runs so far and in
  /// front of the next one. Does not wait, unless within the host's memory.
  void copy(std::byte* to, DeviceId to_device, std::span<const std::byte> from, DeviceId from_device);
  /// Until all work of the runs so far is done.
  void wait_for_runs();
  /// Until all that is in front of the last run that was not waited for is done. What kernels find wrong with their
  /// data is left to wait_for_runs().
  void wait_for_previous();
  TensorView output(size_t index) const;

  /// Threads of a run at most: what plans are bound for.
  int most_threads() const { return pool_.most(); }
  /// Of the GPU that has the caller's memory; null where there is none.
  const DeviceQueue* queue() const { return main_ ? main_->queue.get() : nullptr; }
  size_t memory_bytes() const;

  Profiler* profiler = nullptr;
  Cancellation cancellation;
  /// By plan value. Called with the run's threads, which are free at that time.
  std::map<int32_t, std::function<void(const TensorView&, ThreadPool&)>> taps;

 private:
  AlignedBuffer new_arena(size_t bytes);
  void bind(const BoundPlan& bound, const KeptValues& kept, const CallerMemory& memory);
  void bind_input(const BoundPlan& bound, size_t i, const CallerBuffer& buffer);
  void bind_output(const BoundPlan& bound, size_t o, const CallerBuffer& buffer);
  void run_steps(const BoundPlan& bound, KeptValues& kept, Recordings& recordings, const CallerMemory& memory);
  /// Tells the weights that come in which steps this run takes.
  void start_weights(const BoundPlan& bound);
  /// Tells them where recordings begin and end.
  void stop_weights_at(const std::vector<RecordedSteps>& recorded);
  /// Waits for those of the step.
  void await_weights(size_t s);
  /// Those that run once, and whose results are kept.
  void run_hoisted(const BoundPlan& bound);
  /// Whether a tap wants what a hoisted step computes.
  bool taps_hoisted(const BoundPlan& bound) const;
  void check_cancellation(size_t s) const;
  /// One step by itself, with all who look on.
  void run_single(const BoundPlan& bound, size_t s);
  void check_recordable(const BoundPlan& bound) const;
  void run_named(const BoundPlan& bound, size_t s);
  void run_recorded(const BoundPlan& bound, RecordedSteps& steps);
  /// A recording with the operands of this run instead of others; null where none can be had.
  RecordedSteps::Run* update_recording(const BoundPlan& bound, RecordedSteps& steps);
  void run_all(const BoundPlan& bound, const RecordedSteps& steps, bool in_parts = false);
  /// `count` steps that run.
  std::unique_ptr<DeviceRecording> record(const BoundPlan& bound, const RecordedSteps& steps, size_t count);
  void find_operands(const BoundPlan& bound, size_t s);
  void run_step(const BoundPlan& bound, size_t s);
  void run_dynamic_step(const BoundPlan& bound, size_t s);
  void give_up(Tensor& dynamic);
  void start_run(std::optional<void*> stream);
  void finish_run();
  /// Waits for what the GPUs still do.
  void wait_for_gpus();
  /// Makes ready for a run whose steps are timed, and reads what those on GPUs took.
  void prepare_profile();
  void begin_spans();
  void finish_profile(const BoundPlan& bound);
  void call_taps(const BoundPlan& bound, const std::vector<int32_t>& values);
  /// The value that a step writes for a tensor that is tapped; what is seen in it is there then too.
  int32_t written_value(int32_t tapped) const;
  std::byte* pointer(const BoundPlan& bound, int32_t value) const {
    return pointers_[static_cast<size_t>(plan_->root(value))] + bound.shift(value);
  }
  Tensor tensor(const BoundPlan& bound, int32_t value) const;
  Dims current_dims(const BoundPlan& bound, int32_t value) const;
  void finish_outputs(const BoundPlan& bound, const CallerMemory& memory);
  std::byte* host_output(size_t o, size_t bytes);
  std::byte* device_output(size_t o, size_t bytes) { return on_device(own_outputs_[o], bytes, "an output"); }
  /// Memory of the context's own for an input or an output.
  struct OwnMemory {
    AlignedBuffer on_host;
    std::shared_ptr<std::byte> on_device;
    size_t device_bytes = 0;
  };
  std::byte* on_device(OwnMemory& own, size_t bytes, const char* what);
  /// Values that are apart and not the caller's.
  void bind_apart(const BoundPlan& bound, const CallerMemory& memory);
  /// Whether an output's value of the host is there in a run with this buffer.
  bool needs_host_side(size_t o, const CallerBuffer& buffer) const;
  void bring_to_device(std::byte* to, std::span<const std::byte> from);
  /// Small inputs and outputs of the host's memory pass through memory that the GPU reads and writes by itself: one
  /// kernel before all steps instead of a copy each, and one behind them. Where nothing looks at single steps, and the
  /// run ends before the caller goes on.
  void stage_small(const BoundPlan& bound);
  void copy_small(std::span<const SmallCopy> copies);
  /// Behind the run: to where the caller wants them.
  void deliver_small_outputs();

  /// What a context has on a GPU.
  struct OnGpu {
    std::unique_ptr<DeviceQueue> queue;
    std::shared_ptr<std::byte> arena;
    size_t arena_bytes = 0;
    bool is_busy = false;                      // with work that the host has not waited for
    std::unique_ptr<DeviceTimeline> timeline;  // two moments a step, and the run's begin; once somebody profiles
    double run_begin = 0;                      // that moment by the profiler's clock, where it keeps runs
    std::unique_ptr<DeviceEvent> event;        // that other GPUs wait for
  };
  /// What follows in one queue waits for all that is in another one now.
  static void order(OnGpu& later, OnGpu& earlier);
  /// Of a copy between two GPUs: the one that is read from. Null for other steps.
  OnGpu* source_of(const PlanStep& step);
  /// The arena of a device.
  std::byte* arena(DeviceId device) { return device.is_host() ? arena_.data() : gpus_.at(device).arena.get(); }

  const Plan* plan_;
  WeightStream* stream_ = nullptr;
  std::optional<WeightStream::Run> weights_;  // of this run, where they come in
  std::vector<int32_t> streamed_steps_;       // of this run
  const bool traces_layers_ = is_traced("layers");
  ThreadPool pool_;
  ArenaPool* arenas_;
  std::map<DeviceId, OnGpu> gpus_;
  OnGpu* main_ = nullptr;                                    // has the caller's memory and streams
  AlignedBuffer arena_;                                      // of the host
  bool is_in_callers_recording_ = false;                     // this run
  bool keeps_memory_ = false;                                // since a run was
  std::vector<std::shared_ptr<std::byte>> kept_for_caller_;  // what would have been given back since
  const Transfers transfers_;
  std::vector<bool> left_out_;  // steps that this run does without
  bool ran_hoisted_ = false;    // in this run
  int64_t failures_ = 0;        // of runs so far
  std::vector<OwnMemory> own_inputs_, own_outputs_;
  std::vector<AlignedBuffer> staged_;  // inputs on the device that steps of the host read
  std::vector<std::byte*> pointers_;   // of each plan value that has storage
  std::vector<Tensor> dynamic_;        // of each plan value with Storage::dynamic
  SpareRoom dynamic_room_;             // for what these give up and ask for again
  size_t given_up_ = 0;                // bytes of them, in this run
  AlignedBuffer late_workspace_;       // of steps whose sizes only running tells
  SymbolBindings late_symbols_;        // the bound plan's and those found while running
  std::vector<const std::byte*> step_inputs_;
  std::vector<std::byte*> step_outputs_;
  std::byte* step_workspace_ = nullptr;
  std::vector<const std::byte*> recorded_operands_;
  std::vector<TensorView> results_;
  std::optional<RunSpan> spans_;                         // of this run, where the profiler keeps it
  bool waits_ = true;                                    // at the end of this run
  bool may_write_host_ = false;                          // work that nobody has waited for: such runs, and copies
  std::shared_ptr<std::byte> pinned_;                    // what small inputs and outputs pass through
  std::vector<SmallCopy> small_inputs_, small_outputs_;  // of this run, between there and the GPU
  std::vector<SmallCopy> small_results_;                 // from there to the host's memory
};

}  // namespace camshaft
