#include "runtime/arena_pool.h"

#include <algorithm>
#include <utility>

namespace camshaft {

AlignedBuffer ArenaPool::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  free_.reserve(free_.size() + lent_ + 1);  // so that giving back needs no memory
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const bool fits = it->size() >= bytes;
    if (best == free_.end() || (fits ? best->size() < bytes || it->size() < best->size() : it->size() > best->size()))
      best = it;
  }
  AlignedBuffer arena;
  if (best != free_.end()) {
    std::swap(arena, *best);
    free_.erase(best);
  }
  if (arena.size() < bytes) {
    arena = AlignedBuffer();  // give the old one back before asking for more
    arena = AlignedBuffer(bytes, "the intermediate tensors of a context");
  }
  ++lent_;
  return arena;
}

void ArenaPool::give_back(AlignedBuffer arena) {
  const std::lock_guard lock(mutex_);
  --lent_;
  free_.push_back(std::move(arena));
}

BorrowedArena::BorrowedArena(ArenaPool* pool, size_t bytes, AlignedBuffer& arena) : pool_(pool), arena_(arena) {
  if (pool_) arena_ = pool_->take(bytes);
}

BorrowedArena::~BorrowedArena() {
  if (pool_) pool_->give_back(std::exchange(arena_, AlignedBuffer()));
}

}  // namespace camshaft
