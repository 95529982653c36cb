// Queues of work on a device.
#pragma once

#include <span>

#include "cuda/device.h"

namespace camshaft::cuda {

/// A point in a stream's work. Must not outlive its device.
class Event {
 public:
  explicit Event(const Device& device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Waits until the work before it is done.
  void wait() const;
  /// Time that the device took from `begin` to here, in seconds; both must have been reached. Resolves about 0.5 µs.
  double seconds_since(const Event& begin) const;

 private:
  friend class Stream;
  const Device& device_;
  api::Handle event_ = nullptr;
};

/// Work that a device does in the order in which it was given; streams run beside each other. One that is made here
/// does not wait for the default stream. Must not outlive its device.
class Stream {
 public:
  explicit Stream(const Device& device);
  /// One of the caller's, who destroys it.
  Stream(const Device& device, api::Handle borrowed) : device_(device), stream_(borrowed) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Device& device() const { return device_; }
  api::Handle handle() const { return stream_; }
  void record(Event& event) const;
  /// What comes after this waits for `event`.
  void wait_for(const Event& event) const;
  /// Waits until all work is done; throws Error for what failed in it.
  void synchronize() const;

  /// Copies, in the stream's order. Host memory that is not pinned is copied before the call returns, in effect.
  void copy_to_device(std::byte* to, std::span<const std::byte> from) const;
  void copy_to_host(std::span<std::byte> to, const std::byte* from) const;
  void copy_on_device(std::byte* to, const std::byte* from, size_t bytes) const;

 private:
  const Device& device_;
  api::Handle stream_ = nullptr;
  bool owned_ = false;
};

}  // namespace camshaft::cuda
