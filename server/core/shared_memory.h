// Regions of memory that clients share with the server on the same machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "server/core/status.h"

namespace camshaft::server {

/// POSIX shared memory by name and key. Safe from several threads; a region in use by a request stays mapped until it is
/// answered.
class SharedMemory {
 public:
  struct Region {
    std::string name, key;
    uint64_t offset = 0, byte_size = 0;
  };
  struct Slice {
    std::span<std::byte> span;
    std::shared_ptr<const void> owner;
  };

  /// `allowed`: the server was told to take memory of its clients (--allow-client-shm); else every call is
  /// ServerError(unsupported).
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
  bool allowed_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Mapping>> regions_;
};

}  // namespace camshaft::server
