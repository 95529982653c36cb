// A queue of work on a device.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "backends/cuda/driver/memory.h"

namespace camshaft::cuda {

/// Work that a device does in the order in which it was given; streams run beside each other. One that is made here
/// does not wait for the default stream. Must not outlive its device.
class Stream {
 public:
  explicit Stream(const Device& device);
  /// A stream of somebody else's, who keeps it; null is the default stream.
  Stream(const Device& device, api::Handle stream) : device_(device), stream_(stream), is_own_(false) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Device& device() const { return device_; }
  api::Handle handle() const { return stream_; }
  /// Whether it was made here, and ends with this.
  bool is_own() const { return is_own_; }
  /// cuDNN's for it (libraries/dnn.cpp), which ends before it does.
  std::shared_ptr<void>& dnn_handle() const { return dnn_handle_; }
  /// Whether somebody records it: then what is put into it is not done now.
  bool is_recorded() const;
  /// Waits until all work is done; throws Error for what failed in it.
  void synchronize() const;
  /// Whether it is, without waiting; throws as synchronize().
  bool is_done() const;

  /// Whether what comes next waits for an event; asking makes that known.
  bool take_wait() const { return std::exchange(waits_, false); }
  void note_wait() const { waits_ = true; }

  /// Copies, in the stream's order. Host memory that is not pinned is copied before the call returns, in effect.
  void copy_to_device(std::byte* to, std::span<const std::byte> from) const;
  void copy_to_host(std::span<std::byte> to, const std::byte* from) const;
  /// From another device's memory, or this one's own; only the latter may be recorded.
  void copy_from(std::byte* to, std::span<const std::byte> from, const Device& source) const;

 private:
  const Device& device_;
  api::Handle stream_ = nullptr;
  bool is_own_ = true;
  mutable bool waits_ = false;
  mutable std::shared_ptr<void> dnn_handle_;
};

/// Throws Error(invalid_argument) for a stream that is not one of the device's, in its primary context. The default
/// stream, null, is every device's.
void check_stream(const Device& device, api::Handle stream);

/// A moment in the work of a stream. Must not outlive its device.
class Event {
 public:
  /// `has_time`: it can be asked for seconds_since(), which makes others wait for it a little longer.
  explicit Event(const Device& device, bool has_time = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// The moment when all that is in the stream now is done.
  void record(const Stream& stream);
  /// The same of a stream that is being recorded: the moment is that of the recording's latest launch.
  void record_in_recording(const Stream& stream);
  /// The stream's work from now on waits for that moment, also where it is another device's; the caller does not.
  void hold_back(const Stream& stream) const;
  void synchronize() const;
  /// Whether it has passed; throws as synchronize().
  bool is_done() const;
  /// Seconds from `start` to this one, which both have time and have passed. The device counts in about half
  /// microseconds.
  double seconds_since(const Event& start) const;

 private:
  const Device& device_;
  api::Handle event_ = nullptr;
};

/// Device memory with these bytes.
DeviceBuffer upload(const Device& device, std::span<const std::byte> bytes, std::string_view purpose);

}  // namespace camshaft::cuda
