// Responses by the bytes of their requests' inputs.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "server/core/pending.h"

namespace camshaft::server {

/// Keeps so many bytes of outputs at most; what was used longest ago goes first. Safe from several threads.
class ResponseCache {
 public:
  explicit ResponseCache(size_t most_bytes) : most_bytes_(most_bytes) {}

  struct Key {
    uint64_t low = 0, high = 0;
    bool operator==(const Key&) const = default;
  };
  /// Of a checked request: 128 bits of model, version, all inputs and which outputs are asked for. `owner`: a
  /// number of the version that was loaded.
  static Key key(const Pending& pending, uint64_t owner);
  /// One for each version that is loaded.
  static uint64_t next_owner();
  /// The outputs in the request's order; nothing: they are not there.
  std::optional<std::vector<NamedTensor>> find(const Key& key);
  /// Copies them: an output is a slice of a batch's memory, which would stay whole.
  void insert(const Key& key, const std::vector<NamedTensor>& outputs);

 private:
  struct Hash {
    size_t operator()(const Key& key) const { return static_cast<size_t>(key.low); }
  };
  struct Entry {
    Key key;
    std::vector<NamedTensor> outputs;
    size_t bytes = 0;
  };

  std::mutex mutex_;
  const size_t most_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  ///< the latest used first
  std::unordered_map<Key, std::list<Entry>::iterator, Hash> by_key_;
};

}  // namespace camshaft::server
