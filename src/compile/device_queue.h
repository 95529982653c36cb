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
};

}  // namespace camshaft
