#include "server/core/request_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "server/core/status.h"

namespace camshaft::server {

void RequestMemory::take(uint64_t bytes) {
  uint64_t held = in_use_;
  do {
    if (bytes > limit_ || held > limit_ - bytes)
      throw ServerError(StatusCode::resource_exhausted,
                        "the server holds " + std::to_string(held) +
                            " bytes of requests and takes no more now: try again later, or start it with a larger "
                            "--request-memory-limit");
  } while (!in_use_.compare_exchange_weak(held, held + bytes));
}

std::shared_ptr<const void> RequestMemory::hold(uint64_t bytes) {
  auto memory = shared_from_this();
  take(bytes);
  // Where there is no memory for the pointer itself it gives back at once.
  return {static_cast<const void*>(this), [memory, bytes](const void*) { memory->give_back(bytes); }};
}

uint64_t default_request_memory() {
  auto bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  // Containers see their own group there, by its second or its first version.
  for (const char* name : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream in(name);
    uint64_t limit = 0;
    if (in >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes / 2;
}

}  // namespace camshaft::server
