// Numbers that kernels read beside their operands: made once for a shape.
#pragma once

#include <cstring>
#include <vector>

#include "backends/cuda/driver/memory.h"
#include "backends/cuda/driver/stream.h"

namespace camshaft::cuda {

/// Bytes in device memory, from several lists one behind the other.
class DeviceTable {
 public:
  explicit DeviceTable(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  /// Adds a list; gives where it will be, in bytes from data().
  template <class T>
  size_t add(const std::vector<T>& list) {
    constexpr size_t alignment = 16;
    const size_t at = bytes_.size();
    bytes_.resize((at + list.size() * sizeof(T) + alignment - 1) / alignment * alignment);
    if (!list.empty()) std::memcpy(bytes_.data() + at, list.data(), list.size() * sizeof(T));
    return at;
  }
  /// Brings all lists to the device, and waits for that. Throws Error(out_of_memory).
  void upload() {
    buffer_ = cuda::upload(*device_, bytes_, "the tables of a layer");
    bytes_ = {};
  }
  const std::byte* data() const { return buffer_.data(); }

 private:
  std::shared_ptr<const Device> device_;  // outlives the buffer
  std::vector<std::byte> bytes_;
  DeviceBuffer buffer_;
};

}  // namespace camshaft::cuda
