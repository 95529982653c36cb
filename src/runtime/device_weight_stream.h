// Weights that come from the host's memory to a device ahead of the layers that read them.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "compile/backend.h"
#include "runtime/run_turns.h"
#include "runtime/weight_image.h"
#include "runtime/weight_stream.h"

namespace camshaft {

/// Each block of weights has an address of its own, and blocks that come in share the window's memory by turns: a
/// block's place in it never changes, so that kernels, and recordings of them, know nothing of it. Copies are in a
/// queue of their own. They wait for the step that reads what they replace, and steps wait for them, on the device: the
/// host waits for nothing.
///
/// While steps are recorded, the copies that they need become a part of the recording, as if nothing were in the
/// window.
class DeviceWeightStream final : public WeightStream, private WeightStream::Loader {
 public:
  /// Brings what stays, and puts the rest into pinned memory of the host. `blocks`: of the image; blocks of far uses
  /// stay. Throws Error(out_of_memory).
  DeviceWeightStream(const Backend& backend, const WeightImage& image, WeightBlocks blocks, StreamingPlan plan);
  ~DeviceWeightStream() override;

  /// Where the image is on the device.
  const std::shared_ptr<std::byte>& memory() const { return memory_; }
  StreamCounts counts() const override;
  void close() override;

 private:
  /// What is in the window once all that was put into the queues is done.
  struct Window {
    std::vector<int32_t> block;         // of each place; below 0: none
    std::vector<int64_t> needed_until;  // of each place: the last step that it was brought for, -1 for one before
    size_t brought = 0;                 // the first step whose blocks nobody has brought yet
    int64_t copies_wait_for = -1;       // the last step of those that the queue of copies waits for
  };
  struct StepEvents {
    std::unique_ptr<DeviceEvent> brought, done;
  };

  WeightStream::Loader& loader() override { return *this; }
  void take_turn(const Cancellation& cancellation, DeviceQueue* queue) override;
  void begin(std::span<const int32_t> steps) override;
  void await(size_t step, const Cancellation& cancellation) override;
  void done(size_t step) override;
  void end(size_t steps_done) noexcept override;
  void stop_ahead(std::span<const size_t> steps) override;
  void start_recording(size_t step, size_t count) override;
  void finish_recording() override;
  void before_replay() override;
  void replayed(size_t step, size_t count) override;

  void fill(const WeightImage& image);
  const std::vector<uint32_t>& coming(size_t step) const { return coming_[static_cast<size_t>(steps_[step])]; }
  bool can_bring(const Window& window, size_t step, size_t done) const;
  void bring(Window& window, size_t step);
  Window& window() { return is_recording_ ? recorded_ : live_; }
  StepEvents& events(size_t step) { return (is_recording_ ? recorded_events_ : events_)[step]; }
  Window empty_window(size_t first_step) const;

  const std::unique_ptr<DeviceQueue> copies_;
  std::vector<int32_t> place_;                 // of each block, in the window
  std::vector<std::vector<uint32_t>> coming_;  // of each step of the plan: its blocks that come in
  std::shared_ptr<std::byte> memory_;
  std::vector<size_t> pinned_at_;  // of each block that comes in, in pinned_
  std::shared_ptr<std::byte> pinned_;

  RunTurns turns_;
  // Of the run that has the turn.
  DeviceQueue* computes_ = nullptr;
  std::vector<int32_t> steps_;
  std::vector<size_t> stops_;     // steps before which nothing is brought for them, in order
  std::vector<bool> is_brought_;  // of each step: its event says when its blocks are there
  std::vector<StepEvents> events_, recorded_events_;
  Window live_, recorded_;
  size_t recorded_end_ = 0;
  bool is_recording_ = false, has_forked_ = false;
  std::unique_ptr<DeviceEvent> run_is_done_, copies_are_done_, recording_begins_;

  mutable std::mutex counts_mutex_;
  int64_t brought_blocks_ = 0;
};

}  // namespace camshaft
