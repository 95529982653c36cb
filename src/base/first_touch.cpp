#include "base/first_touch.h"

#include <algorithm>
#include <fstream>
#include <memory>

#include "base/thread_pool.h"
#include "base/workers.h"

namespace camshaft {

int memory_nodes(const std::string& file) {
  std::ifstream list(file);
  int nodes = 0;
  for (int first; list >> first;) {
    int last = first;
    if (list.peek() == '-') {
      list.ignore();
      if (!(list >> last)) break;
    }
    nodes += std::max(0, last - first + 1);
    if (list.peek() == ',') list.ignore();
  }
  return std::max(1, nodes);
}

int memory_nodes() {
  static const int nodes = memory_nodes("/sys/devices/system/node/has_memory");
  return nodes;
}

void touch_pages(ThreadPool& pool, std::span<std::byte> memory) {
  constexpr size_t stretch = size_t{2} << 20, page = 4096;  // a huge page is touched once, and again at no cost
  const auto threads = static_cast<size_t>(pool.size());
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  pool.run([&](int thread) {
    for (size_t at = 0, end = 0; at < memory.size(); at = end) {
      const size_t turn = (address + at) / stretch;
      end = std::min(static_cast<size_t>((turn + 1) * stretch - address), memory.size());
      if (turn % threads != static_cast<size_t>(thread)) continue;
      for (size_t i = at; i < end; i += page - (address + i) % page) memory[i] = std::byte{0};
    }
  });
}

void spread_over_nodes(std::span<std::byte> memory, int nodes) {
  constexpr size_t least = 64 << 10;
  if (nodes < 2 || memory.size() < least) return;
  const std::shared_ptr<Workers>& workers = Workers::of_process();
  ThreadPool pool(workers, workers->limit());
  const ThreadPool::Session session(pool);
  touch_pages(pool, memory);
}

}  // namespace camshaft
