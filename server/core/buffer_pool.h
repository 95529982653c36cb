// Memory for batches' inputs and outputs that is used again.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace camshaft::server {

/// Large pieces of memory come from the system page by page, at 0.25 µs a page of zeros; those that come back are kept,
/// up to so many bytes. Safe from several threads; pieces may outlive the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  explicit BufferPool(size_t most_kept) : most_kept_(most_kept) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  /// At least so many bytes, aligned to 64, of any content. Throws std::bad_alloc.
  std::shared_ptr<std::byte> take(size_t bytes);

 private:
  struct Piece {
    std::byte* data;
    size_t bytes;
  };
  void give_back(Piece piece) noexcept;

  std::mutex mutex_;
  std::vector<Piece> free_;
  size_t kept_ = 0;
  const size_t most_kept_;
};

}  // namespace camshaft::server
