// Memory of a device.
#pragma once

#include <memory>
#include <string_view>

#include "backends/cuda/driver/device.h"

namespace camshaft::cuda {

/// Device memory; empty by default. Frees itself. Must not outlive its device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Not initialised; aligned to 256 bytes. Throws Error(out_of_memory) that says what it was for, how much it takes
  /// and how much is free.
  DeviceBuffer(const Device& device, size_t bytes, std::string_view purpose);
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer();

  std::byte* data() const { return data_; }  ///< an address on the device
  size_t size() const { return size_; }

 private:
  void swap(DeviceBuffer& other) noexcept;

  const Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace camshaft::cuda
