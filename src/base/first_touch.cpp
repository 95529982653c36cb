#include "base/first_touch.h"

#include <algorithm>
#include <fstream>

#include "base/thread_pool.h"

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

void touch_pages(ThreadPool& pool, std::span<std::byte> memory) {
  constexpr size_t stretch = size_t{2} << 20, page = 4096;  // a huge page is touched once, and again at no cost
  const int threads = pool.size();
  pool.run(threads, [&](int thread) {
    for (size_t at = static_cast<size_t>(thread) * stretch; at < memory.size();
         at += static_cast<size_t>(threads) * stretch) {
      const size_t end = std::min(at + stretch, memory.size());
      for (size_t i = at; i < end; i += page) memory[i] = std::byte{0};
    }
  });
}

}  // namespace camshaft
