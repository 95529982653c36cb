#include "base/large_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

namespace camshaft {
namespace {

constexpr size_t most_spare = size_t{64} << 20;
constexpr size_t most_blocks = 16;

struct Block {
  std::byte* data = nullptr;
  size_t size = 0;
};

/// Blocks that nobody uses, the one that was given up last at the end.
class Spares {
 public:
  /// The smallest that is large enough, unless half of it would lie idle. Where there is none, who asks will need new
  /// memory: then no more than the 64 MiB stay beside that.
  Block take(size_t size) {
    std::vector<Block> old;
    Block taken;
    {
      const std::lock_guard lock(mutex_);
      auto best = blocks_.end();
      for (auto block = blocks_.begin(); block != blocks_.end(); ++block)
        if (block->size >= size && block->size / 2 <= size && (best == blocks_.end() || block->size < best->size))
          best = block;
      if (best == blocks_.end()) {
        old = excess(most_spare);
      } else {
        taken = *best;
        blocks_.erase(best);
      }
    }
    give_back(old);
    return taken;
  }

  void give(Block given) {
    std::vector<Block> old;
    {
      const std::lock_guard lock(mutex_);
      if (given.size > most_spare + room_) {
        old = {given};
      } else {
        blocks_.push_back(given);
        old = excess(most_spare + room_);
      }
    }
    give_back(old);
  }

  void change_room(size_t from, size_t to) {
    std::vector<Block> old;
    {
      const std::lock_guard lock(mutex_);
      room_ = room_ - from + to;
      old = excess(most_spare + room_);
    }
    give_back(old);
  }

  size_t bytes() {
    const std::lock_guard lock(mutex_);
    return size();
  }

 private:
  size_t size() const {
    size_t all = 0;
    for (const Block& block : blocks_) all += block.size;
    return all;
  }

  // Takes out the oldest, until so many bytes are left.
  std::vector<Block> excess(size_t most) {
    std::vector<Block> old;
    while (blocks_.size() > most_blocks || size() > most) {
      old.push_back(blocks_.front());
      blocks_.erase(blocks_.begin());
    }
    return old;
  }

  static void give_back(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) ::munmap(block.data, block.size);
  }

  std::mutex mutex_;
  std::vector<Block> blocks_;
  size_t room_ = 0;  // beside the usual
};

// Never destroyed: tensors of static storage may outlive whatever is.
Spares& spares() {
  static auto* const kept = new Spares;
  return *kept;
}

}  // namespace

std::byte* map_large(size_t bytes, bool writable) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (bytes > SIZE_MAX - least_large - page) return nullptr;
  const size_t size = (bytes + page - 1) / page * page;
  void* const mapped = ::mmap(nullptr, size + least_large, writable ? PROT_READ | PROT_WRITE : PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const size_t before = (least_large - reinterpret_cast<uintptr_t>(begin) % least_large) % least_large;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + size, least_large - before);
  if (writable) ::madvise(begin + before, size, MADV_HUGEPAGE);  // a wish; failing costs only speed
  return begin + before;
}

std::shared_ptr<std::byte> make_large(size_t bytes, bool cleared) {
  if (bytes > SIZE_MAX - 2 * least_large) return nullptr;
  const size_t size = (bytes + least_large - 1) / least_large * least_large;
  Block block = spares().take(size);
  if (block.data == nullptr) {
    block = {map_large(size), size};
  } else if (cleared) {
    std::memset(block.data, 0, bytes);
  }
  if (block.data == nullptr) return nullptr;
  return {block.data, [size = block.size](std::byte* data) { spares().give({data, size}); }};
}

void SpareRoom::set(size_t bytes) {
  if (bytes == bytes_) return;
  spares().change_room(bytes_, bytes);
  bytes_ = bytes;
}

size_t spare_memory() {
  return spares().bytes();
}

}  // namespace camshaft
