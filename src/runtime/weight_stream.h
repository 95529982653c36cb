// Weights that come in ahead of the layers that read them.
#pragma once

#include <cstdint>
#include <span>

#include "base/cancellation.h"
#include "compile/device_queue.h"
#include "runtime/streaming_plan.h"

namespace camshaft {

/// The blocks of an engine's weights, as steps read them: of its file, or of a range of its device's addresses. Block b
/// is the bytes from b * block_bytes on.
struct WeightBlocks {
  size_t block_bytes = 0;
  size_t count = 0;  ///< of the whole file or range
  StepBlocks steps;
};

/// What a stream has done so far.
struct StreamCounts {
  int64_t brought_bytes = 0;   ///< from the file, or from the host to the device
  int64_t resident_bytes = 0;  ///< in memory now
  double waited_seconds = 0;   ///< that the host has waited in steps for their weights
};

/// Brings in blocks in the order of the steps, as far ahead as the plan's window has room. All contexts of an engine
/// share one: runs take turns.
class WeightStream {
 public:
  virtual ~WeightStream() = default;
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  const WeightBlocks& blocks() const { return blocks_; }
  const StreamingPlan& plan() const { return plan_; }
  virtual StreamCounts counts() const = 0;
  /// Waits for the run that is under way; the engine goes on with another stream, or none. Runs that come nevertheless
  /// have their weights.
  virtual void close() = 0;

  /// Who brings in the weights of the run that has the turn. Steps are numbered in the order in which it takes them.
  class Loader {
   public:
    virtual ~Loader() = default;
    virtual void take_turn(const Cancellation& cancellation, DeviceQueue* queue) = 0;
    virtual void begin(std::span<const int32_t> steps) = 0;
    virtual void await(size_t step, const Cancellation& cancellation) = 0;
    virtual void done(size_t step) = 0;
    virtual void end(size_t steps_done) noexcept = 0;
    // Where steps are recorded: see Run.
    virtual void stop_ahead(std::span<const size_t> /*steps*/) {}
    virtual void start_recording(size_t /*step*/, size_t /*count*/) {}
    virtual void finish_recording() {}
    virtual void before_replay() {}
    virtual void replayed(size_t /*step*/, size_t /*count*/) {}
  };

  /// The turn of one run.
  class Run {
   public:
    /// Waits until runs of other contexts are over. `queue`: of the device that computes; null: the host. Throws
    /// Error(cancelled), and Error(invalid_argument) within a run of the same thread.
    Run(WeightStream& stream, const Cancellation& cancellation, DeviceQueue* queue = nullptr);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    /// `steps` of the plan in the order in which the run takes them.
    void start(std::span<const int32_t> steps);
    /// Until all blocks of the next step are here, or, on a device, will be when the queue comes to it. Throws what
    /// went wrong when they were read, and Error(cancelled).
    void await();
    /// It is computed, or in the queue, and needs them no more.
    void done();

    /// Before any step of these places in the order nothing is brought for those from there on: recordings begin there
    /// or end, which bring what they need.
    void stop_ahead(std::span<const size_t> places) { loader_.stop_ahead(places); }
    /// The next `count` steps are recorded by what follows, and not run: the recording brings their weights.
    void start_recording(size_t count);
    void finish_recording();
    /// Around a replay of such a recording, of the next `count` steps.
    void before_replay() { loader_.before_replay(); }
    void replayed(size_t count);
    /// How many steps were taken.
    size_t place() const { return step_; }

   private:
    Loader& loader_;
    const Cancellation& cancellation_;
    size_t step_ = 0;
    size_t recorded_from_ = 0;
  };

 protected:
  WeightStream(WeightBlocks blocks, StreamingPlan plan) : blocks_(std::move(blocks)), plan_(std::move(plan)) {}
  /// Of this process.
  virtual Loader& loader() = 0;

  const WeightBlocks blocks_;
  const StreamingPlan plan_;
};

}  // namespace camshaft
