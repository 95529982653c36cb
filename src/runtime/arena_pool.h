// Arenas that the contexts of an engine lend each other.
#pragma once

#include <mutex>
#include <vector>

#include "base/aligned_buffer.h"

namespace camshaft {

/// Memory for runs, as many buffers as there were ever runs at the same time. Any thread may use it.
class ArenaPool {
 public:
  /// At least `bytes`: the least buffer that is large enough, or else a new one, for which the largest of those that
  /// are too small is given up. Throws Error(out_of_memory).
  AlignedBuffer take(size_t bytes);
  void give_back(AlignedBuffer arena);

 private:
  std::mutex mutex_;
  std::vector<AlignedBuffer> free_;
  size_t lent_ = 0;
};

/// An arena for the time of a run.
class BorrowedArena {
 public:
  /// Into `arena`, which is empty until then and afterwards. Does nothing where `pool` is null.
  BorrowedArena(ArenaPool* pool, size_t bytes, AlignedBuffer& arena);
  ~BorrowedArena();
  BorrowedArena(const BorrowedArena&) = delete;
  BorrowedArena& operator=(const BorrowedArena&) = delete;

 private:
  ArenaPool* pool_;
  AlignedBuffer& arena_;
};

}  // namespace camshaft
