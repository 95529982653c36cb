#include "base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>

namespace camshaft {
namespace {

size_t machine_memory() {
  const size_t physical = physical_memory();
  size_t bytes = physical > 0 ? physical : SIZE_MAX / 2;
  // Control groups of version 2 and 1; "max" and other words are no number and mean no limit.
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    size_t limit;
    if (std::ifstream(file) >> limit) bytes = std::min(bytes, limit);
  }
  return bytes;
}

std::atomic<size_t>& limit() {
  static std::atomic<size_t> bytes = machine_memory();
  return bytes;
}

}  // namespace

size_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : 0;
}

size_t largest_buffer() {
  return limit().load(std::memory_order_relaxed);
}

void set_largest_buffer(size_t bytes) {
  limit().store(bytes, std::memory_order_relaxed);
}

}  // namespace camshaft
