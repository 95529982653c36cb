// A stream as the runtime knows it.
#pragma once

#include <functional>

#include "backends/cuda/driver/complaints.h"
#include "backends/cuda/driver/module.h"
#include "backends/cuda/driver/recording.h"
#include "backends/cuda/driver/stream.h"
#include "base/communicator.h"
#include "compile/device_queue.h"

namespace camshaft::cuda {

/// The kernel "small_copies" (device/small_copies.cuh) as CUDA C++ text.
std::string small_copies_text();

class Queue final : public DeviceQueue {
 public:
  /// `small_copies` gives the kernel of small_copies_text(), and is asked when it is first needed.
  Queue(std::shared_ptr<const Device> device, std::function<Function()> small_copies)
      : device_(std::move(device)),
        own_(*device_),
        run_begin_(*device_),
        run_end_(*device_),
        complaints_(*device_),
        load_small_copies_(std::move(small_copies)) {}
  DeviceId device() const override { return DeviceId::gpu(device_->facts().ordinal); }
  std::shared_ptr<std::byte> allocate(size_t bytes, std::string_view purpose) override;
  std::shared_ptr<std::byte> allocate_blocks(std::span<const int32_t> slots, size_t block_bytes,
                                             std::string_view purpose) override;
  size_t block_granularity() const override;
  std::shared_ptr<std::byte> allocate_pinned(size_t bytes, std::string_view purpose) override;
  int64_t free_bytes() const override { return device_->free_bytes(); }
  void copy_to_device(std::byte* to, std::span<const std::byte> from) override {
    refuse_in_callers_recording("copying to the device");
    await_ranks();  // the driver may wait for memory that is not pinned, and nobody could end that
    stream().copy_to_device(to, from);
  }
  void copy_to_host(std::span<std::byte> to, const std::byte* from) override {
    refuse_in_callers_recording("copying to the host");
    await_ranks();
    stream().copy_to_host(to, from);
  }
  void copy_small(std::span<const SmallCopy> copies) override;
  size_t most_small_copies() const override;
  bool is_reached(const std::byte* memory) const override;
  void copy_from(std::byte* to, std::span<const std::byte> from, const DeviceQueue& source) override {
    stream().copy_from(to, from, *static_cast<const Queue&>(source).device_);
  }
  void synchronize() override {
    refuse_in_callers_recording("waiting for the device");
    await_ranks();
    stream().synchronize();
    complaints_.check();
  }

  std::unique_ptr<DeviceEvent> make_event() override;
  void record(DeviceEvent& event) override;
  void wait_for(const DeviceEvent& event) override;

  void check_stream(void* stream) const override;
  bool is_recorded(void* stream) const override { return Stream(*device_, stream).is_recorded(); }
  void start_run(std::optional<void*> stream) override;
  void finish_run() override;
  void mark_run() override { run_begin_.record(stream()); }
  void wait_for_marked() override;
  void wait_for_runs() override;
  void check_memory(const void* memory, DeviceId device, std::string_view what) const override;

  /// In the queue's own stream, whichever is used: the default stream cannot be recorded.
  void start_recording() override;
  void begin_part() override;
  void finish_part() override;
  std::unique_ptr<DeviceRecording> finish_recording() override;

  std::unique_ptr<DeviceTimeline> make_timeline(size_t moments) override;

  bool is_recording() const { return is_recording_; }
  /// Work goes to the run's stream again; what was recorded is left to the caller.
  void stop_recording() { is_recording_ = false; }
  /// Where work goes now.
  const Stream& stream() const { return is_recording_ || !callers_ ? own_ : *callers_; }
  /// Where it is recorded.
  const Stream& recorder() const { return own_; }
  Complaints& complaints() { return complaints_; }

  /// Kernels that are put into the queue, now or when a recording is replayed, wait for these ranks' devices: whoever
  /// waits for the queue also looks at whether they still come, and where not, ends the work and throws why. Null: they
  /// wait for nobody.
  void set_ranks(std::shared_ptr<Communicator> ranks) {
    ranks_ = std::move(ranks);
    note_replay();
  }
  /// Waits until they have come to all that is in the queue.
  void await_ranks();
  /// A recording is replayed.
  void note_replay() { has_work_with_ranks_ = ranks_ != nullptr; }

 private:
  void refuse_in_callers_recording(const char* what) const;
  void await_ranks(const std::function<bool()>& is_done);

  std::shared_ptr<const Device> device_;
  Stream own_;
  std::optional<Stream> callers_;         // during a run
  bool is_in_callers_recording_ = false;  // the same
  bool is_recording_ = false;
  RecordingParts parts_;  // of the latest recording
  Event run_begin_;       // of the last run that was marked
  Event run_end_;
  std::optional<api::Handle> last_stream_;  // that run_end_ is in
  Complaints complaints_;
  std::function<Function()> load_small_copies_;
  std::optional<Function> small_copies_;
  std::shared_ptr<Communicator> ranks_;
  bool has_work_with_ranks_ = false;  // as far as is known
};

}  // namespace camshaft::cuda
