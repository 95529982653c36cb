// A queue of work on a device.
#pragma once

#include <span>

#include "cuda/memory.h"

namespace camshaft::cuda {

/// Work that a device does in the order in which it was given; streams run beside each other. One that is made here
/// does not wait for the default stream. Must not outlive its device.
class Stream {
 public:
  explicit Stream(const Device& device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Device& device() const { return device_; }
  api::Handle handle() const { return stream_; }
  /// Waits until all work is done; throws Error for what failed in it.
  void synchronize() const;

  /// Copies, in the stream's order. Host memory that is not pinned is copied before the call returns, in effect.
  void copy_to_device(std::byte* to, std::span<const std::byte> from) const;
  void copy_to_host(std::span<std::byte> to, const std::byte* from) const;

 private:
  const Device& device_;
  api::Handle stream_ = nullptr;
};

/// Device memory with these bytes.
DeviceBuffer upload(const Device& device, std::span<const std::byte> bytes, std::string_view purpose);

}  // namespace camshaft::cuda
