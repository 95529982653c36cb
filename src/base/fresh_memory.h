// Memory that was just mapped, for a file's bytes to be read into and moved to where they belong.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <thread>

namespace camshaft {

/// Pages of zeros, in huge ones where it is large; given back unless they are moved.
class FreshMemory {
 public:
  /// Throws Error(out_of_memory).
  explicit FreshMemory(size_t bytes);
  ~FreshMemory();
  FreshMemory(const FreshMemory&) = delete;
  FreshMemory& operator=(const FreshMemory&) = delete;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  /// Gives all but the first bytes back: a multiple of the system's pages.
  void shorten(size_t bytes);
  /// Puts the pages, readable alone from then on, in the place of what is mapped at `to`; false where the process has
  /// too many mappings.
  bool move_to(std::byte* to);

 private:
  size_t bytes_;
  std::byte* data_ = nullptr;
  bool is_moved_ = false;
};

/// Makes memory ready on a thread of its own, while its user waits for a disk: the system takes 0.3 s for the zeros of
/// 1 GB, as long as half of the reading (1.7 GB/s).
class MemoryAhead {
 public:
  MemoryAhead() = default;
  ~MemoryAhead();
  MemoryAhead(const MemoryAhead&) = delete;
  MemoryAhead& operator=(const MemoryAhead&) = delete;

  /// Begins to make so many bytes ready, unless as many are; 0: gives those that are ready back.
  void prepare(size_t bytes);
  /// Memory of that size: what was made ready, where that is enough. Throws Error(out_of_memory).
  std::unique_ptr<FreshMemory> take(size_t bytes);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  size_t wanted_ = 0;
  bool stops_ = false, is_working_ = false;
  std::unique_ptr<FreshMemory> ready_;
};

}  // namespace camshaft
