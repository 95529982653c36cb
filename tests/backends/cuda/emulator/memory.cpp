#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "facts.h"

namespace emulator {

namespace {

constexpr size_t page = 4096, alignment = 256;
constexpr unsigned char canary = 0xcb;

struct Allocation {
  int device = 0;
  size_t bytes = 0;
  std::byte* pages = nullptr;  // the ones that may be touched; one more on either side
  size_t page_bytes = 0;
  int file = -1;         // of the pages, where other processes may have them
  int imports = 0;       // of another process's pages: how often
  int owner = 0;         // that process
  uintptr_t origin = 0;  // their address there
};

// Device memory has addresses of its own, none of which is used twice, with much room in between.
constexpr uintptr_t first_address = 0x5000'0000'0000, last_address = 0x5400'0000'0000;
constexpr size_t room_between = 1 << 20;

struct Memory {
  std::recursive_mutex mutex;
  uintptr_t next_address = first_address;
  std::map<uintptr_t, Allocation> allocations;
  std::map<int, size_t> used;  // by device
  int accesses = 0;
};

Memory& memory() {
  static auto* memory = new Memory;  // outlives whoever frees last
  return *memory;
}

void protect(const Allocation& a, bool open) {
  mprotect(a.pages, a.page_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

// The last allocation that begins at or before an address.
const std::pair<const uintptr_t, Allocation>* before(uintptr_t address) {
  auto next = memory().allocations.upper_bound(address);
  return next == memory().allocations.begin() ? nullptr : &*std::prev(next);
}

}  // namespace

uintptr_t allocate(size_t bytes, int device) {
  const std::lock_guard lock(memory().mutex);
  if (bytes == 0 || bytes > free_bytes(device)) return 0;
  Allocation made;
  made.device = device;
  made.bytes = bytes;
  // The end lies as close to the forbidden page as the alignment allows.
  const size_t room = (bytes + alignment - 1) / alignment * alignment;
  made.page_bytes = (room + page - 1) / page * page;
  void* mapped = mmap(reinterpret_cast<void*>(memory().next_address), made.page_bytes + 2 * page, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory().next_address += made.page_bytes + room_between;
  if (mapped == MAP_FAILED) return 0;
  made.pages = static_cast<std::byte*>(mapped) + page;
  protect(made, true);
  std::byte* begin = made.pages + made.page_bytes - room;
  std::memset(made.pages, canary, made.page_bytes);
  std::memset(begin, facts::unwritten, bytes);
  if (memory().accesses == 0) protect(made, false);
  memory().used[device] += made.page_bytes;
  const auto address = reinterpret_cast<uintptr_t>(begin);
  memory().allocations.emplace(address, made);
  return address;
}

std::pair<uintptr_t, size_t> allocation_of(uintptr_t address) {
  const std::lock_guard lock(memory().mutex);
  const auto* found = before(address);
  if (found == nullptr || address - found->first >= found->second.bytes) return {0, 0};
  return {found->first, found->second.bytes};
}

bool export_allocation(uintptr_t address, SharedPages& shared) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().allocations.find(allocation_of(address).first);
  if (found == memory().allocations.end() || found->second.imports > 0) return false;
  Allocation& a = found->second;
  if (a.file < 0) {
    const Access access;
    const int file = memfd_create("shared emulated memory", MFD_CLOEXEC);
    if (file < 0 || write(file, a.pages, a.page_bytes) != static_cast<ssize_t>(a.page_bytes) ||
        mmap(a.pages, a.page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
      close(file);
      return false;
    }
    a.file = file;
  }
  shared = {getpid(), a.file, found->first, a.bytes, a.page_bytes};
  return true;
}

uintptr_t import_allocation(const SharedPages& shared, int device) {
  const std::lock_guard lock(memory().mutex);
  for (auto& [address, a] : memory().allocations)
    if (a.imports > 0 && a.owner == shared.owner && a.origin == shared.address) return ++a.imports, address;
  const std::string path = "/proc/" + std::to_string(shared.owner) + "/fd/" + std::to_string(shared.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return 0;
  const bool fits = lseek(file, 0, SEEK_END) == static_cast<off_t>(shared.page_bytes) && shared.bytes > 0 &&
                    shared.bytes <= shared.page_bytes && shared.page_bytes % page == 0;
  void* mapped = MAP_FAILED;
  if (fits)
    mapped = mmap(reinterpret_cast<void*>(memory().next_address), shared.page_bytes + 2 * page, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped != MAP_FAILED) {
    memory().next_address += shared.page_bytes + room_between;
    mapped =
        mmap(static_cast<std::byte*>(mapped) + page, shared.page_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, 0);
  }
  close(file);
  if (mapped == MAP_FAILED) return 0;
  Allocation made{device, shared.bytes, static_cast<std::byte*>(mapped), shared.page_bytes};
  made.imports = 1;
  made.owner = shared.owner;
  made.origin = shared.address;
  protect(made, memory().accesses > 0);
  const size_t room = (shared.bytes + alignment - 1) / alignment * alignment;
  const auto address = reinterpret_cast<uintptr_t>(made.pages + made.page_bytes - room);
  memory().allocations.emplace(address, made);
  return address;
}

bool release_import(uintptr_t address) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().allocations.find(address);
  if (found == memory().allocations.end() || found->second.imports == 0) return false;
  if (--found->second.imports > 0) return true;
  munmap(found->second.pages - page, found->second.page_bytes + 2 * page);
  memory().allocations.erase(found);
  return true;
}

bool release(uintptr_t address) {
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().allocations.find(address);
  if (found == memory().allocations.end() || found->second.imports > 0) return false;
  if (found->second.file >= 0) close(found->second.file);
  munmap(found->second.pages - page, found->second.page_bytes + 2 * page);
  memory().used[found->second.device] -= found->second.page_bytes;
  memory().allocations.erase(found);
  return true;
}

uintptr_t reserve(size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const size_t granularity = facts::granularity();
  const uintptr_t address = (memory().next_address + granularity - 1) / granularity * granularity;
  void* mapped =
      mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory().next_address = address + bytes + room_between;
  return mapped == MAP_FAILED ? 0 : reinterpret_cast<uintptr_t>(mapped);
}

void take(int device, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().used[device] += bytes;
}

void give(int device, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  memory().used[device] -= bytes;
}

void add_mapping(uintptr_t address, size_t bytes, int device) {
  const std::lock_guard lock(memory().mutex);
  Allocation made;
  made.device = device;
  made.bytes = made.page_bytes = bytes;
  made.pages = reinterpret_cast<std::byte*>(address);
  protect(made, memory().accesses > 0);
  memory().allocations.insert_or_assign(address, made);
}

void forget_mapping(uintptr_t address) {
  const std::lock_guard lock(memory().mutex);
  if (const auto* found = before(address); found && address < found->first + found->second.bytes)
    memory().allocations.erase(found->first);
}

size_t free_bytes(int device) {
  const std::lock_guard lock(memory().mutex);
  return facts::memory_bytes() - std::min(memory().used[device], facts::memory_bytes());
}

bool is_device_memory(uintptr_t address, size_t bytes) {
  const std::lock_guard lock(memory().mutex);
  const auto* found = before(address);
  return found != nullptr && address - found->first <= found->second.bytes &&
         bytes <= found->second.bytes - (address - found->first);
}

int device_of(uintptr_t address) {
  const std::lock_guard lock(memory().mutex);
  return is_device_memory(address, 0) ? before(address)->second.device : -1;
}

bool may_be_device_memory(uintptr_t address) {
  return is_device_memory(address, 0) || (address >= first_address - (uintptr_t{1} << 40) && address < last_address);
}

std::string describe(uintptr_t address) {
  const std::lock_guard lock(memory().mutex);
  if (address == 0) return "null";
  const auto* found = before(address);
  const auto next = memory().allocations.upper_bound(address);
  const size_t after = found == nullptr ? SIZE_MAX : address - found->first;
  if (after != SIZE_MAX && after < found->second.bytes)
    return std::to_string(after) + " bytes into an allocation of " + std::to_string(found->second.bytes) + " bytes";
  if (next != memory().allocations.end() && next->first - address <= page)
    return std::to_string(next->first - address) + " bytes before an allocation of " +
           std::to_string(next->second.bytes) + " bytes";
  if (after != SIZE_MAX && after < found->second.bytes + room_between)
    return std::to_string(after - found->second.bytes) + " bytes after an allocation of " +
           std::to_string(found->second.bytes) + " bytes";
  return "no device memory";
}

std::string damage() {
  const std::lock_guard lock(memory().mutex);
  const Access access;
  const auto is_canary = [](std::byte b) { return b == std::byte{canary}; };
  for (const auto& [address, a] : memory().allocations) {
    auto* begin = reinterpret_cast<std::byte*>(address);
    std::byte* end = a.pages + a.page_bytes;
    for (const auto& [from, to] : {std::pair{std::max(a.pages, begin - alignment), begin}, {begin + a.bytes, end}})
      if (const std::byte* hit = std::find_if_not(from, to, is_canary); hit != to) {
        const std::string what = describe(reinterpret_cast<uintptr_t>(hit));
        std::memset(from, canary, static_cast<size_t>(to - from));
        return what;
      }
  }
  return "";
}

Access::Access() {
  const std::lock_guard lock(memory().mutex);
  if (memory().accesses++ == 0)
    for (const auto& [address, a] : memory().allocations) protect(a, true);
}

Access::~Access() {
  const std::lock_guard lock(memory().mutex);
  if (--memory().accesses == 0)
    for (const auto& [address, a] : memory().allocations) protect(a, false);
}

}  // namespace emulator
