#include "llm/block_pool.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <string>

#include "camshaft/error.hpp"

namespace camshaft::llm {

namespace {

uint64_t hash_of_block(uint64_t parent, uint64_t salt, std::span<const int32_t> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent * 0x9E3779B97F4A7C15u ^ salt);
}

}  // namespace

BlockPool::BlockPool(int32_t blocks, int32_t block_size, bool caching, Hash hash)
    : block_size_(block_size), caching_(caching), hash_(hash == nullptr ? hash_of_block : hash) {
  if (blocks < 1 || block_size < 1)
    throw Error(ErrorCode::invalid_argument, "a cache of " + std::to_string(blocks) + " blocks of " +
                                                 std::to_string(block_size) + " tokens: both must be 1 or more");
  blocks_.resize(static_cast<size_t>(blocks));
  available_ = blocks;
  free_.reserve(blocks_.size());
  for (int32_t block = blocks; block-- > 0;) free_.push_back(block);  // the first is taken first
  if (!caching_) return;
  tokens_.resize(blocks_.size() * static_cast<size_t>(block_size));
  buckets_.assign(std::bit_ceil(blocks_.size() * 2), none);
}

std::span<int32_t> BlockPool::tokens_of(int32_t block) {
  const auto size = static_cast<size_t>(block_size_);
  return {tokens_.data() + static_cast<size_t>(block) * size, size};
}

BlockId BlockPool::allocate() {
  int32_t block = none;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (oldest_ != none) {
    block = oldest_;
    remove_from_list(block);
    unpublish(block);
    ++evictions_;
  } else {
    return none;
  }
  --available_;
  at(block).references = 1;
  return block;
}

void BlockPool::retain(BlockId block) {
  if (at(block).references++ > 0) return;
  remove_from_list(block);  // of find_prefix() alone: nobody else knows of it
  --available_;
}

void BlockPool::release(BlockId block) {
  if (--at(block).references > 0) return;
  ++available_;
  if (at(block).content != 0) {
    append_to_list(block);
  } else {
    free_.push_back(block);
  }
}

void BlockPool::find_prefix(std::span<const int32_t> tokens, BlockSalts salts, std::vector<BlockId>& found) {
  if (!caching_) return;
  const auto size = static_cast<size_t>(block_size_);
  uint64_t parent = 0;
  for (size_t at_token = 0; at_token + size <= tokens.size(); at_token += size) {
    const std::span<const int32_t> wanted = tokens.subspan(at_token, size);
    const uint64_t salt = salts.of(at_token / size);
    const int32_t block = lookup(hash_(parent, salt, wanted), parent, salt, wanted);
    if (block == none) return;
    retain(block);
    found.push_back(block);
    parent = at(block).content;
  }
}

BlockId BlockPool::publish(BlockId block, BlockId parent, uint64_t salt, std::span<const int32_t> tokens) {
  if (!caching_ || at(block).content != 0) return block;
  const uint64_t in_front = parent == none ? 0 : at(parent).content;
  const uint64_t hash = hash_(in_front, salt, tokens);
  const int32_t known = lookup(hash, in_front, salt, tokens);
  if (known != none) {  // two sequences computed the same at the same time
    retain(known);
    release(block);
    return known;
  }
  Block& published = at(block);
  published.content = ++last_content_;
  published.parent = in_front;
  published.salt = salt;
  published.hash = hash;
  std::ranges::copy(tokens, tokens_of(block).begin());
  int32_t& bucket = buckets_[hash & (buckets_.size() - 1)];
  published.next = bucket;
  bucket = block;
  return block;
}

// Contents have numbers that never come again, so what is behind a block that was evicted is not found behind another
// one in the same place.
int32_t BlockPool::lookup(uint64_t hash, uint64_t parent, uint64_t salt, std::span<const int32_t> tokens) {
  for (int32_t block = buckets_[hash & (buckets_.size() - 1)]; block != none; block = at(block).next) {
    const Block& known = at(block);
    if (known.hash == hash && known.parent == parent && known.salt == salt &&
        std::ranges::equal(tokens_of(block), tokens))
      return block;
  }
  return none;
}

void BlockPool::unpublish(int32_t block) {
  int32_t* link = &buckets_[at(block).hash & (buckets_.size() - 1)];
  while (*link != block) link = &at(*link).next;
  *link = at(block).next;
  at(block).content = 0;
}

void BlockPool::append_to_list(int32_t block) {
  at(block).before = newest_;
  at(block).after = none;
  (newest_ == none ? oldest_ : at(newest_).after) = block;
  newest_ = block;
}

void BlockPool::remove_from_list(int32_t block) {
  const Block& removed = at(block);
  (removed.before == none ? oldest_ : at(removed.before).after) = removed.after;
  (removed.after == none ? newest_ : at(removed.after).before) = removed.before;
}

}  // namespace camshaft::llm
