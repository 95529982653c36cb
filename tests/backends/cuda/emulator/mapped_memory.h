// Memory of the emulated devices that is mapped to addresses, which several may share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulator {

/// Addresses without memory; 0 where there are none.
uintptr_t reserve_addresses(size_t bytes);
bool free_addresses(uintptr_t address, size_t bytes);
/// Full of facts::unwritten. 0 when there is not as much.
uint64_t create_memory(size_t bytes, int device);
/// What is mapped stays. False for what is none.
bool release_memory(uint64_t memory);
/// Whether the addresses are reserved and have no memory yet.
bool map_memory(uintptr_t address, size_t bytes, uint64_t memory);
/// Of one map_memory(), all of it.
bool unmap_memory(uintptr_t address, size_t bytes);
/// For kernels and copies, as one allocation. Whether all of it is mapped.
bool open_memory(uintptr_t address, size_t bytes, int device);

}  // namespace emulator
