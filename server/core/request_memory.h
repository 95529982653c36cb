// What requests may take of memory, over all protocols.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace camshaft::server {

/// Bytes of requests that the server holds, from when they come in until they are answered. Safe from several threads.
class RequestMemory : public std::enable_shared_from_this<RequestMemory> {
 public:
  explicit RequestMemory(uint64_t limit) : limit_(limit) {}

  /// Throws ServerError(resource_exhausted) beyond the limit.
  void take(uint64_t bytes);
  void give_back(uint64_t bytes) noexcept { in_use_ -= bytes; }
  uint64_t in_use() const { return in_use_; }
  uint64_t limit() const { return limit_; }

  /// Takes, and gives back with the last copy.
  std::shared_ptr<const void> hold(uint64_t bytes);

 private:
  const uint64_t limit_;
  std::atomic<uint64_t> in_use_ = 0;
};

/// Half of the memory that the machine or the process's control group has.
uint64_t default_request_memory();

}  // namespace camshaft::server
