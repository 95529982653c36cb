// What the runtime knows of a device that has memory and an order of work of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace camshaft {

/// Whose memory a value is in, and who runs a kernel.
enum class Place : uint8_t { host, device };

/// Work of a queue that was recorded. Must not outlive the queue.
class DeviceRecording {
 public:
  virtual ~DeviceRecording() = default;
  /// Puts all of it into the queue, as it was recorded: with the same addresses.
  virtual void replay() = 0;
};

/// The work that one context gives to a device, in order, and the memory that it takes there. The calls only put work
/// into the queue; synchronize() waits for it. Kernels of the backend that made it know what it is. Throws Error.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  /// Device memory, aligned to 256 bytes; null for 0 bytes. Error(out_of_memory) names the purpose and what is free.
  virtual std::shared_ptr<std::byte> allocate(size_t bytes, std::string_view purpose) = 0;
  /// Host memory may be changed as soon as the call returns.
  virtual void copy_to_device(std::byte* to, std::span<const std::byte> from) = 0;
  /// Host memory holds the bytes after synchronize().
  virtual void copy_to_host(std::span<std::byte> to, const std::byte* from) = 0;
  virtual void synchronize() = 0;
  /// Until finish_recording(), kernels that this thread puts into the queue are recorded and not run. Nothing else may
  /// be asked of the queue meanwhile.
  virtual void start_recording() = 0;
  virtual std::unique_ptr<DeviceRecording> finish_recording() = 0;
};

}  // namespace camshaft
