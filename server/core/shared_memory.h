// Regions of memory that clients share with the server on the same machine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "server/core/status.h"
#include "server/core/tensor.h"

namespace camshaft::server {

/// POSIX shared memory by name and key. Safe from several threads; a region in use by a request stays mapped until it
/// is answered.
///
/// The client may write to it at any time, so what is checked must be copied first. It may also make the file shorter:
/// a slice of what is gone is refused, and where that happens while the slice is in use its bytes read as zeros and
/// damaged() says so, in place of the SIGBUS that would end the process.
class SharedMemory {
 public:
  struct Region {
    std::string name, key;
    uint64_t offset = 0, byte_size = 0;
  };
  struct Slice {
    std::span<std::byte> span;
    std::shared_ptr<const void> owner;
    std::shared_ptr<const std::atomic<bool>> broken = nullptr;
    /// Whether bytes that were read or written were not there: what was made of them is no answer.
    bool damaged() const { return broken != nullptr && *broken; }
  };

  /// `allowed`: the server was told to take memory of its clients (--allow-client-shm); else register_region() and
  /// unregister() are ServerError(unsupported).
  explicit SharedMemory(bool allowed) : allowed_(allowed) {}

  /// Throws ServerError: already_exists, or invalid_argument for a key that cannot be opened or is too short.
  void register_region(const std::string& name, const std::string& key, uint64_t offset, uint64_t byte_size);
  /// An empty name: all.
  void unregister(const std::string& name);
  /// An empty name: all. Throws ServerError(not_found).
  std::vector<Region> status(const std::string& name) const;
  /// Throws ServerError(invalid_argument) for an unknown region, and for what lies beyond it.
  Slice slice(const std::string& name, uint64_t offset, uint64_t byte_size) const;

 private:
  struct Mapping;
  void check_allowed() const;

  bool allowed_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Mapping>> regions_;
};

/// A slice as the bytes of an input: reals where they are, the rest as a copy. Strings and integers may be lengths and
/// indices, which the client must not change once they were checked.
Bytes input_bytes(const SharedMemory::Slice& slice, DType dtype);

}  // namespace camshaft::server
