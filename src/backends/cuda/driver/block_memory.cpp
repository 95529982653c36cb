#include "backends/cuda/driver/block_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "backends/cuda/driver/check.h"
#include "base/error.h"
#include "base/format_bytes.h"

namespace camshaft::cuda {

namespace {

api::MemoryProperties properties_of(const Device& device) {
  api::MemoryProperties properties;
  properties.device = device.facts().ordinal;
  return properties;
}

}  // namespace

size_t BlockMemory::granularity(const Device& device) {
  const Current current(device);
  constexpr int least = 0;
  const api::MemoryProperties properties = properties_of(device);
  size_t bytes = 0;
  check(device.driver(), device.driver().cuMemGetAllocationGranularity(&bytes, &properties, least),
        "asking for memory that can be mapped to several addresses");
  return bytes;
}

BlockMemory::BlockMemory(const Device& device, std::span<const int32_t> slots, size_t block_bytes,
                         std::string_view purpose)
    : device_(device), bytes_(slots.size() * block_bytes) {
  if (bytes_ == 0) return;
  const Current current(device);
  check(device.driver(), device.driver().cuMemAddressReserve(&address_, bytes_, 0, 0, 0), "reserving addresses");
  try {
    map_all(slots, block_bytes, purpose);
  } catch (...) {
    release();
    throw;
  }
}

BlockMemory::~BlockMemory() {
  if (address_ != 0) release();
}

void BlockMemory::map_all(std::span<const int32_t> slots, size_t block_bytes, std::string_view purpose) {
  std::map<int32_t, uint64_t> memory_of_slot;
  for (size_t b = 0; b < slots.size();) {
    size_t end = b + 1;
    if (slots[b] < 0) {
      while (end < slots.size() && slots[end] < 0) ++end;
      map(b * block_bytes, (end - b) * block_bytes, create((end - b) * block_bytes, purpose));
    } else {
      uint64_t& memory = memory_of_slot[slots[b]];
      if (memory == 0) memory = create(block_bytes, purpose);
      map(b * block_bytes, block_bytes, memory);
    }
    b = end;
  }
  api::MemoryAccess access;
  access.device = device_.facts().ordinal;
  check(device_.driver(), device_.driver().cuMemSetAccess(address_, bytes_, &access, 1), "opening memory for a device");
}

uint64_t BlockMemory::create(size_t bytes, std::string_view purpose) {
  const api::MemoryProperties properties = properties_of(device_);
  uint64_t memory = 0;
  const api::Result result = device_.driver().cuMemCreate(&memory, bytes, &properties, 0);
  if (result == api::error_out_of_memory)
    throw Error(ErrorCode::out_of_memory,
                fmt::format("out of memory on GPU {}: {} for {}, of {} in all; {} are free", device_.facts().ordinal,
                            format_bytes(bytes), purpose, format_bytes(bytes_),
                            format_bytes(static_cast<size_t>(device_.free_bytes()))));
  check(device_.driver(), result, "taking memory that is mapped to addresses");
  created_.push_back(memory);
  return memory;
}

void BlockMemory::map(size_t offset, size_t bytes, uint64_t memory) {
  check(device_.driver(), device_.driver().cuMemMap(address_ + offset, bytes, 0, memory, 0),
        "mapping memory to addresses");
  mapped_.emplace_back(offset, bytes);
}

void BlockMemory::release() noexcept {
  release_on(device_, [&](const api::Driver& driver) {
    for (const auto& [offset, bytes] : mapped_) driver.cuMemUnmap(address_ + offset, bytes);
    for (const uint64_t memory : created_) driver.cuMemRelease(memory);
    driver.cuMemAddressFree(address_, bytes_);
  });
}

}  // namespace camshaft::cuda
