#include "mapped_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "facts.h"
#include "memory.h"

namespace emulator {

namespace {

// A file in memory, so that several addresses can have it.
class Physical {
 public:
  Physical(size_t size, int of_device) : bytes(size), device(of_device), file_(memfd_create("emulated memory", 0)) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(bytes)) != 0) return;
    void* const all = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (all == MAP_FAILED) return;
    std::memset(all, facts::unwritten, bytes);
    munmap(all, bytes);
    take(device, bytes);
  }
  ~Physical() {
    if (file_ < 0) return;
    give(device, bytes);
    close(file_);
  }
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  bool map(uintptr_t address) const {
    return mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file_, 0) != MAP_FAILED;
  }

  const size_t bytes;
  const int device;

 private:
  int file_;
};

struct Mapped {
  std::mutex mutex;
  uint64_t next_handle = 1;
  std::map<uint64_t, std::shared_ptr<Physical>> created;
  std::map<uintptr_t, size_t> reserved;
  std::map<uintptr_t, std::shared_ptr<Physical>> mapped;
};

Mapped& mapped() {
  static auto* mapped = new Mapped;
  return *mapped;
}

bool is_reserved(uintptr_t address, size_t bytes) {
  const auto next = mapped().reserved.upper_bound(address);
  if (next == mapped().reserved.begin()) return false;
  const auto& [begin, size] = *std::prev(next);
  return address + bytes <= begin + size;
}

}  // namespace

uintptr_t reserve_addresses(size_t bytes) {
  const std::lock_guard lock(mapped().mutex);
  const uintptr_t address = reserve(bytes);
  if (address != 0) mapped().reserved[address] = bytes;
  return address;
}

bool free_addresses(uintptr_t address, size_t bytes) {
  const std::lock_guard lock(mapped().mutex);
  const auto found = mapped().reserved.find(address);
  const auto inside = mapped().mapped.lower_bound(address);
  if (found == mapped().reserved.end() || found->second != bytes ||
      (inside != mapped().mapped.end() && inside->first < address + bytes))
    return false;
  munmap(reinterpret_cast<void*>(address), bytes);
  mapped().reserved.erase(found);
  return true;
}

uint64_t create_memory(size_t bytes, int device) {
  const std::lock_guard lock(mapped().mutex);
  if (bytes == 0 || bytes % facts::granularity() != 0 || bytes > free_bytes(device)) return 0;
  mapped().created[mapped().next_handle] = std::make_shared<Physical>(bytes, device);
  return mapped().next_handle++;
}

bool release_memory(uint64_t memory) {
  const std::lock_guard lock(mapped().mutex);
  return mapped().created.erase(memory) == 1;
}

bool map_memory(uintptr_t address, size_t bytes, uint64_t memory) {
  const std::lock_guard lock(mapped().mutex);
  const auto found = mapped().created.find(memory);
  const auto next = mapped().mapped.lower_bound(address);
  if (found == mapped().created.end() || found->second->bytes != bytes || !is_reserved(address, bytes) ||
      address % facts::granularity() != 0 || (next != mapped().mapped.end() && next->first < address + bytes) ||
      (next != mapped().mapped.begin() && std::prev(next)->first + std::prev(next)->second->bytes > address) ||
      !found->second->map(address))
    return false;
  mapped().mapped[address] = found->second;
  return true;
}

bool unmap_memory(uintptr_t address, size_t bytes) {
  const std::lock_guard lock(mapped().mutex);
  const auto found = mapped().mapped.find(address);
  if (found == mapped().mapped.end() || found->second->bytes != bytes) return false;
  forget_mapping(address);
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  mapped().mapped.erase(found);
  return true;
}

bool open_memory(uintptr_t address, size_t bytes, int device) {
  const std::lock_guard lock(mapped().mutex);
  uintptr_t at = address;
  for (auto part = mapped().mapped.find(address); at < address + bytes; ++part) {
    if (part == mapped().mapped.end() || part->first != at || part->second->device != device) return false;
    at += part->second->bytes;
  }
  add_mapping(address, bytes, device);
  return at == address + bytes;
}

}  // namespace emulator
