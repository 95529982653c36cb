#include "server/core/response_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <atomic>

namespace camshaft::server {

namespace {

// What an entry takes besides its tensors' bytes.
constexpr size_t entry_overhead = 256;

}  // namespace

ResponseCache::Key ResponseCache::key(const Pending& pending, uint64_t owner) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
  if (state == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state.get());
  const auto add = [&](const void* data, size_t bytes) {
    XXH3_128bits_update(state.get(), &bytes, sizeof(bytes));
    if (bytes > 0) XXH3_128bits_update(state.get(), data, bytes);
  };
  add(&owner, sizeof(owner));
  for (const NamedTensor* input : pending.inputs) {
    if (input == nullptr) {
      add(nullptr, 0);
      continue;
    }
    add(input->shape.data(), input->shape.size() * sizeof(int64_t));
    add(input->data.span.data(), input->data.span.size());
  }
  add(pending.outputs.data(), pending.outputs.size() * sizeof(size_t));
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return {hash.low64, hash.high64};
}

uint64_t ResponseCache::next_owner() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

std::optional<std::vector<NamedTensor>> ResponseCache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, at->second);
  return at->second->outputs;
}

void ResponseCache::insert(const Key& key, const std::vector<NamedTensor>& outputs) {
  Entry entry{key, outputs, entry_overhead};
  for (NamedTensor& output : entry.outputs) {
    auto copy = std::make_shared<std::vector<std::byte>>(output.data.span.begin(), output.data.span.end());
    output.data = {*copy, copy};
    entry.bytes += output.data.span.size();
  }
  if (entry.bytes > most_bytes_) return;
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return;
  while (bytes_ + entry.bytes > most_bytes_) {
    bytes_ -= entries_.back().bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  bytes_ += entry.bytes;
  entries_.push_front(std::move(entry));
  by_key_[key] = entries_.begin();
}

}  // namespace camshaft::server
