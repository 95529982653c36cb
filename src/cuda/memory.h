// Memory of a device, and of the host where devices read it fastest.
#pragma once

#include <memory>
#include <string_view>

#include "cuda/device.h"

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

/// Host memory that stays where it is: copies between it and a device run beside other work. The same otherwise.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(const Device& device, size_t bytes, std::string_view purpose);
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void swap(PinnedBuffer& other) noexcept;

  const Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace camshaft::cuda
