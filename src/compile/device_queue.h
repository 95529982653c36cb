// What the runtime knows of a device that has memory and an order of work of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/device_id.h"

namespace camshaft {

/// Work of a queue that was recorded, in parts that are numbered from 0. Must not outlive the queue.
class DeviceRecording {
 public:
  virtual ~DeviceRecording() = default;
  /// Puts all of it into the queue, as it was recorded: with the same addresses, in whatever stream it was.
  virtual void replay() = 0;
  /// Replaces a part by what `put` puts into the queue: the same kernel with other arguments. False where it is not one
  /// kernel, or would be another one; the recording is as it was then. What was replayed before is not touched.
  virtual bool replace(size_t /*part*/, const std::function<void()>& /*put*/) { return false; }
};

/// Numbered moments in the work of a queue. Must not outlive the queue.
class DeviceTimeline {
 public:
  virtual ~DeviceTimeline() = default;
  /// The moment when what is in the queue now is done. May be recorded: then it is that of each replay.
  virtual void mark(size_t moment) = 0;
  /// Between two moments that were marked and have passed: somebody has waited for the queue since.
  virtual double seconds(size_t from, size_t to) const = 0;
};

/// A moment in the work of a queue that queues of other devices can wait for. Must not outlive the queue.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
};

/// Some bytes that are copied.
struct SmallCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  size_t bytes = 0;
};

/// The work that one context gives to a device, in order, and the memory that it takes there. The calls only put work
/// into the queue; synchronize() waits for it. Kernels of the backend that made it know what it is. Throws Error.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  virtual DeviceId device() const = 0;
  /// Device memory, aligned to 256 bytes; null for 0 bytes. Error(out_of_memory) names the purpose and what is free.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes, std::string_view purpose) = 0;
  /// The device's own, in blocks whose sizes are multiples of block_granularity() and that have one range of addresses.
  /// `slots`: of each block the number of the slot whose memory it shares with others; below 0: it has memory of its
  /// own. Nothing of it may be in use when it goes. Errors as of allocate(), and Error where the device has none.
  virtual std::shared_ptr<std::byte> allocate_blocks(std::span<const int32_t> slots, size_t block_bytes,
                                                     std::string_view purpose);
  virtual size_t block_granularity() const;
  /// Of the host's, from which the device copies by itself. Errors as of allocate().
  virtual std::shared_ptr<std::byte> allocate_pinned(size_t bytes, std::string_view purpose);
  /// Of the device's memory; 0: unknown.
  virtual int64_t free_bytes() const { return 0; }
  /// Host memory may be changed as soon as the call returns, if it is not pinned; such is read when its turn has come.
  virtual void copy_to_device(std::byte* to, std::span<const std::byte> from) = 0;
  /// Host memory holds the bytes after synchronize().
  virtual void copy_to_host(std::span<std::byte> to, const std::byte* from) = 0;
  /// Small copies between the device's memory and memory from allocate_pinned(), as one piece of work: of decoders a
  /// step has six numbers or so, each of which took as long as a kernel. No more than most_small_copies(), which may be
  /// 0.
  virtual void copy_small(std::span<const SmallCopy> /*copies*/) {}
  virtual size_t most_small_copies() const { return 0; }
  /// Whether copy_small() takes it: memory of the device, or from allocate_pinned() of any queue.
  virtual bool is_reached(const std::byte* /*memory*/) const { return false; }
  /// From memory of the device of `source`, another queue. What is in that queue is not waited for: see wait_for().
  virtual void copy_from(std::byte* to, std::span<const std::byte> from, const DeviceQueue& source) = 0;
  virtual void synchronize() = 0;
  virtual std::unique_ptr<DeviceEvent> make_event() = 0;
  /// `event`, of this queue, is now the moment when what is in the queue is done.
  virtual void record(DeviceEvent& event) = 0;
  /// What follows in this queue waits for that moment of another queue, on whichever device; the caller does not. One
  /// that was never recorded has passed.
  virtual void wait_for(const DeviceEvent& event) = 0;
  /// Whether a stream of the caller's is being recorded (captured into a CUDA graph).
  virtual bool is_recorded(void* stream) const = 0;
  /// Throws Error(invalid_argument) for a stream of the caller's that is not one of this device.
  virtual void check_stream(void* stream) const = 0;
  /// What follows goes into `stream`, a stream of the caller's (a CUstream; null is the default one), or into the
  /// queue's own; the device does it after the runs before, whichever streams they went into. While the caller records
  /// that stream a run becomes a part of the recording: it knows nothing of other runs, and neither takes memory nor
  /// copies between host and device, nor waits: these throw Error(invalid_argument).
  virtual void start_run(std::optional<void*> stream) = 0;
  /// The end of a run, also of one that failed. Back to the queue's own stream.
  virtual void finish_run() = 0;
  /// Within a run, behind start_run(): wait_for_marked() waits for all that is in front of it.
  virtual void mark_run() = 0;
  virtual void wait_for_marked() = 0;
  /// Waits for all runs that were finished. Needs no stream of theirs to be there still.
  virtual void wait_for_runs() = 0;
  /// Throws Error(invalid_argument), which begins with `what`, when `memory` is not memory of `device`: the host, or
  /// the queue's device.
  virtual void check_memory(const void* memory, DeviceId device, std::string_view what) const = 0;
  /// Until finish_recording(), kernels that this thread puts into the queue are recorded and not run. Nothing else may
  /// be asked of the queue meanwhile.
  virtual void start_recording() = 0;
  /// What was put into the queue since the part before is of none.
  virtual void begin_part() {}
  /// What was put into the queue since the recording, the part before, or begin_part(), is a part of it.
  virtual void finish_part() {}
  virtual std::unique_ptr<DeviceRecording> finish_recording() = 0;
  /// start_recording() and put(), which leaves no recording begun when it throws.
  void put_into_recording(const std::function<void()>& put);
  /// Of so many moments.
  virtual std::unique_ptr<DeviceTimeline> make_timeline(size_t moments) = 0;
};

/// Times what a queue does, as the device sees it. Must not outlive the queue.
class DeviceStopwatch {
 public:
  virtual ~DeviceStopwatch() = default;
  /// Put into the queue, before and behind what is timed. Not while it is recorded.
  virtual void start() = 0;
  virtual void stop() = 0;
  /// Between the last start and stop; waits for it.
  virtual double seconds() = 0;
  /// Puts a kernel into the queue that reads this device memory and, with `rewrite`, writes it as it was: it is in the
  /// device's cache afterwards, and what was there before is not, as far as there is no room. May be recorded. `memory`
  /// and `bytes` are multiples of 16.
  virtual void touch(std::byte* memory, size_t bytes, bool rewrite) = 0;
  /// Of the cache that all of the device shares.
  virtual size_t cache_bytes() const = 0;
};

}  // namespace camshaft
