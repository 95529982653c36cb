// Uninitialised memory aligned for vectors, and for huge pages when it is large.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "base/budget.h"

namespace camshaft {

/// Owns `size` bytes that start at a multiple of 64 (of 2 MiB from there up, and huge pages are asked for). Movable,
/// not copyable. The contents are not initialised.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  /// Throws Error(out_of_memory) that names `size` and `purpose` ("the arena of a context", …).
  AlignedBuffer(size_t size, std::string_view purpose);
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : claim_(std::move(other.claim_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(claim_, other.claim_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  MemoryClaim claim_;
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace camshaft
