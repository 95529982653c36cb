#include "backends/cuda/driver/memory.h"

#include <fmt/format.h>

#include <utility>

#include "backends/cuda/driver/check.h"
#include "base/error.h"
#include "base/format_bytes.h"

namespace camshaft::cuda {

DeviceBuffer::DeviceBuffer(const Device& device, size_t bytes, std::string_view purpose) {
  if (bytes == 0) return;
  const Current current(device);
  api::Pointer pointer = 0;
  const api::Result result = device.driver().cuMemAlloc_v2(&pointer, bytes);
  if (result == api::error_out_of_memory)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("out of memory on GPU {}: {} for {}, {} are free", device.facts().ordinal,
                            format_bytes(bytes), purpose, format_bytes(static_cast<size_t>(device.free_bytes()))));
  check(device.driver(), result, "allocating memory");
  device_ = &device;
  data_ = reinterpret_cast<std::byte*>(pointer);
  size_ = bytes;
}

DeviceBuffer::~DeviceBuffer() {
  if (data_ == nullptr) return;
  release_on(*device_, [&](const api::Driver& driver) { driver.cuMemFree_v2(reinterpret_cast<api::Pointer>(data_)); });
}

void DeviceBuffer::swap(DeviceBuffer& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
}

}  // namespace camshaft::cuda
