#include "server/core/buffer_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace camshaft::server {

namespace {

// What is given out is at most so many times what is asked for: a small answer must not hold on to a large piece.
constexpr size_t most_slack = 2;
constexpr size_t buffer_alignment = 64;

}  // namespace

BufferPool::~BufferPool() {
  for (const Piece& piece : free_) std::free(piece.data);
}

std::shared_ptr<std::byte> BufferPool::take(size_t bytes) {
  const size_t rounded = (std::max<size_t>(bytes, 1) + buffer_alignment - 1) / buffer_alignment * buffer_alignment;
  Piece piece{nullptr, rounded};
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = free_.size(); i-- > 0;) {
      if (free_[i].bytes < rounded || free_[i].bytes / most_slack > rounded) continue;
      piece = free_[i];
      free_[i] = free_.back();
      free_.pop_back();
      kept_ -= piece.bytes;
      break;
    }
  }
  if (piece.data == nullptr) piece.data = static_cast<std::byte*>(std::aligned_alloc(buffer_alignment, rounded));
  if (piece.data == nullptr) throw std::bad_alloc();
  return {piece.data, [pool = weak_from_this(), piece](std::byte*) {
            if (const auto held = pool.lock())
              held->give_back(piece);
            else
              std::free(piece.data);
          }};
}

void BufferPool::give_back(Piece piece) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (kept_ + piece.bytes <= most_kept_) {
      try {
        free_.push_back(piece);
        kept_ += piece.bytes;
        return;
      } catch (const std::bad_alloc&) {  // then it is not kept
      }
    }
  }
  std::free(piece.data);
}

}  // namespace camshaft::server
