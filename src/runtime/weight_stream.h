// Weights that come from the engine's file ahead of the layers that read them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/cancellation.h"
#include "base/mapped_file.h"
#include "runtime/streaming_plan.h"

namespace camshaft {

/// The blocks of a file's weights, as steps read them: block b is the file's bytes from b * block_bytes on.
struct WeightBlocks {
  size_t block_bytes = 0;
  size_t count = 0;  ///< in the file
  StepBlocks steps;
};

/// What a stream has done so far.
struct StreamCounts {
  int64_t brought_bytes = 0;   ///< read from the file
  int64_t resident_bytes = 0;  ///< in memory now
  double waited_seconds = 0;   ///< that steps have waited for their weights
};

/// Brings in blocks in the order of the steps, as far ahead as the plan's window has room, on a thread of its own; also
/// of the next run while none is there. All contexts of an engine share one: runs take turns. Kernels read the mapping
/// as they do without: where it is not here, the system reads it for them.
class WeightStream {
 public:
  WeightStream(std::shared_ptr<const MappedFile> file, WeightBlocks blocks, StreamingPlan plan);
  ~WeightStream();
  WeightStream(const WeightStream&) = delete;
  WeightStream& operator=(const WeightStream&) = delete;

  const WeightBlocks& blocks() const { return blocks_; }
  const StreamingPlan& plan() const { return plan_; }
  StreamCounts counts() const;
  /// Waits for the run that is under way, gives all blocks back, and does nothing for later ones.
  void close();

 private:
  class Loader;

 public:
  /// The turn of one run. What was read beside the stream before is given back when it starts.
  class Run {
   public:
    /// Waits until runs of other contexts are over. Throws Error(cancelled), and Error(invalid_argument) within a run
    /// of the same thread.
    Run(WeightStream& stream, const Cancellation& cancellation);
    ~Run();
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    /// `steps` of the plan in the order in which the run takes them.
    void start(std::span<const int32_t> steps);
    /// Until all blocks of the next step are here. Throws what went wrong when they were read, and Error(cancelled).
    void await();
    /// It is computed, and needs them no more.
    void done();

   private:
    Loader& loader_;
    const Cancellation& cancellation_;
    size_t step_ = 0;
  };

 private:
  /// Of this process: a forked child has one of its own, as threads do not go with it.
  Loader& loader();

  const std::shared_ptr<const MappedFile> file_;
  const WeightBlocks blocks_;
  const StreamingPlan plan_;
  std::atomic<Loader*> loader_{nullptr};
  std::mutex child_mutex_;  // of those who make a forked child's loader
};

}  // namespace camshaft
