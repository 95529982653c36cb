// Memory that two processes have: one gives out blocks of it, the other frees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "server/core/tensor.h"

namespace camshaft::server {

/// Anonymous memory with a file descriptor, mapped. It cannot shrink, so that reading it is safe whatever the other
/// process does.
class SharedSegment {
 public:
  /// Throws ServerError(resource_exhausted) where there is none.
  static std::shared_ptr<SharedSegment> create(uint64_t size);
  /// Takes the descriptor over. Throws ServerError(internal) for one that is smaller than `size`, or may become so.
  static std::shared_ptr<SharedSegment> adopt(int descriptor, uint64_t size);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  std::span<std::byte> span() const { return span_; }
  int descriptor() const { return descriptor_; }

 private:
  SharedSegment(int descriptor, std::span<std::byte> span) : descriptor_(descriptor), span_(span) {}
  int descriptor_;
  std::span<std::byte> span_;
};

/// Before each block; its first byte is 1 while the other process uses it.
inline constexpr uint64_t shared_block_header = 64;

/// A part of the other process's arena, freed with the last copy of `owner`. Throws ServerError(internal) for one that
/// lies beyond the segment.
Bytes shared_block(const std::shared_ptr<SharedSegment>& segment, uint64_t offset, uint64_t size);

/// Gives out blocks at multiples of 64 bytes. Safe from several threads.
class SharedArena {
 public:
  struct Block {
    uint64_t segment = 0, offset = 0;  ///< of its header
    std::span<std::byte> span;
  };
  /// How the other process learns of segments. Called in the order of what they say.
  struct Tell {
    std::function<void(uint64_t number, const SharedSegment& segment)> added;
    std::function<void(uint64_t number)> dropped;
  };
  explicit SharedArena(Tell tell) : tell_(std::move(tell)) {}

  /// Throws ServerError(resource_exhausted), and what `added` throws.
  Block allocate(uint64_t size);
  /// One that the other process was not told of.
  void free(const Block& block);

 private:
  struct Segment {
    std::shared_ptr<SharedSegment> memory;
    std::map<uint64_t, uint64_t> blocks;  ///< bytes by offset, of those in use
  };
  struct Place {
    uint64_t segment = 0, offset = 0;
    bool found = false;
  };
  Place find(uint64_t need);
  void drop_empty(uint64_t used);

  Tell tell_;
  std::mutex mutex_;
  std::map<uint64_t, Segment> segments_;
  uint64_t next_ = 0;
};

}  // namespace camshaft::server
