// Device memory that several addresses share.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/cuda/driver/device.h"

namespace camshaft::cuda {

/// A range of addresses in blocks of one size, which have memory of their own or share that of a slot with others: what
/// is written to one of these is seen at the addresses of all, by work that comes after it. Must not outlive its
/// device, nor go while work on it is not done.
class BlockMemory {
 public:
  /// What sizes of blocks are multiples of.
  static size_t granularity(const Device& device);
  /// `slots`: of each block the number of the slot that it shares, from 0 on; below 0: it has memory of its own. Throws
  /// Error(out_of_memory) that says what it was for, and Error where the device has no such memory.
  BlockMemory(const Device& device, std::span<const int32_t> slots, size_t block_bytes, std::string_view purpose);
  ~BlockMemory();
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  std::byte* data() const { return reinterpret_cast<std::byte*>(address_); }

 private:
  void map_all(std::span<const int32_t> slots, size_t block_bytes, std::string_view purpose);
  void map(size_t offset, size_t bytes, uint64_t memory);
  uint64_t create(size_t bytes, std::string_view purpose);
  void release() noexcept;

  const Device& device_;
  api::Pointer address_ = 0;
  size_t bytes_ = 0;
  std::vector<uint64_t> created_;                  // memory; what is mapped stays when its handle is released
  std::vector<std::pair<size_t, size_t>> mapped_;  // offsets and bytes
};

}  // namespace camshaft::cuda
