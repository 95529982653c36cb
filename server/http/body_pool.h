// Memory for what comes in.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "server/core/request_memory.h"
#include "server/core/tensor.h"

namespace camshaft::server {

/// Memory that stays while anyone holds its owner, and may be written by who asked for it.
struct Body {
  std::span<std::byte> span;
  std::shared_ptr<const void> owner;
  Bytes bytes() const { return {span, owner}; }
};

/// Buffers at multiples of 64 bytes that are used again. Safe from several threads; buffers may outlive it.
class BodyPool {
 public:
  /// `memory`: what buffers that are in use are taken of.
  explicit BodyPool(std::shared_ptr<RequestMemory> memory);
  /// Throws ServerError(resource_exhausted) beyond the limit.
  Body take(uint64_t size);

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;
};

}  // namespace camshaft::server
