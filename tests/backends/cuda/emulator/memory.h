// Memory of the emulated devices: pages of this process that only kernels and copies may touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace emulator {

/// Aligned to 256 bytes, full of facts::unwritten, between pages that nobody may touch. 0 when there is not as much.
uintptr_t allocate(size_t bytes, int device);
/// False for an address that allocate() did not give.
bool release(uintptr_t address);
size_t free_bytes(int device);
/// Addresses for memory that is mapped there by others (mapped_memory.h); 0 when there are none.
uintptr_t reserve(size_t bytes);
/// Memory that others have: so many bytes less are free, and as many more again.
void take(int device, size_t bytes);
void give(int device, size_t bytes);
/// Pages with memory that others have put there are an allocation, until forget_mapping() of an address in it.
void add_mapping(uintptr_t address, size_t bytes, int device);
void forget_mapping(uintptr_t address);
/// Whether all of these bytes belong to one allocation.
bool is_device_memory(uintptr_t address, size_t bytes);
/// Whose memory an address is in, or just behind; -1 for no device's.
int device_of(uintptr_t address);
/// Whether an address is where device memory is, in an allocation or not.
bool may_be_device_memory(uintptr_t address);
/// What an address is: "4 bytes after an allocation of 100 bytes".
std::string describe(uintptr_t address);
/// The allocation that an address is in, as where it begins and its bytes; {0, 0} for none.
std::pair<uintptr_t, size_t> allocation_of(uintptr_t address);
/// What another process needs to know of an allocation to have it too: from then on its pages are those of a file. The
/// process is another one's `owner` in import_allocation(). False for an address that is in none.
struct SharedPages {
  int owner = 0, file = -1;
  uintptr_t address = 0;  ///< there, which is used once
  size_t bytes = 0, page_bytes = 0;
};
bool export_allocation(uintptr_t address, SharedPages& shared);
/// The pages of another process; 0 where that has none such. Its address is the same for each import of the same pages,
/// until release_import() was called as often.
uintptr_t import_allocation(const SharedPages& shared, int device);
bool release_import(uintptr_t address);
/// What was written beside allocations since they were made; empty if nothing was.
std::string damage();

/// While one lives, this process may touch device memory. They nest.
class Access {
 public:
  Access();
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;
};

}  // namespace emulator
