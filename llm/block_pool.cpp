#include "llm/block_pool.h"

#include <xxhash.h>

#include <algorithm>
#include <string>

#include "camshaft/error.hpp"

namespace camshaft::llm {

namespace {

uint64_t hash_of_block(uint64_t parent, uint64_t salt, std::span<const int32_t> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent * 0x9E3779B97F4A7C15u ^ salt);
}

int32_t checked_blocks(int32_t blocks, int32_t block_size) {
  if (blocks < 1 || block_size < 1)
    throw Error(ErrorCode::invalid_argument, "a cache of " + std::to_string(blocks) + " blocks of " +
                                                 std::to_string(block_size) + " tokens: both must be 1 or more");
  return blocks;
}

// In a chain, of what lies in a slot of the host's memory; and the reverse.
constexpr BlockId in_slot(int32_t slot) {
  return -1 - slot;
}

constexpr bool is_absent(BlockId block) {
  return block < 0;
}

}  // namespace

BlockPool::BlockPool(int32_t blocks, int32_t block_size, bool caching, Hash hash, int32_t host_blocks)
    : block_size_(block_size),
      caching_(caching),
      hash_(hash == nullptr ? hash_of_block : hash),
      references_(static_cast<size_t>(checked_blocks(blocks, block_size))),
      index_(caching ? blocks : 0, block_size),
      unused_(caching ? blocks : 0),
      available_(blocks) {
  free_.reserve(references_.size());
  for (int32_t block = blocks; block-- > 0;) free_.push_back(block);  // the first is taken first
  if (host_blocks < 1) return;
  if (!caching)
    throw Error(ErrorCode::invalid_argument,
                "blocks in the host's memory are found as prefixes are: that needs caching");
  host_.emplace(host_blocks, block_size);
  leaving_.reserve(references_.size());
  coming_.reserve(references_.size());
}

BlockId BlockPool::allocate() {
  int32_t block = none;
  if (!free_.empty()) {
    block = free_.back();
    free_.pop_back();
  } else if (block = unused_.oldest(); block != none) {
    unused_.remove(block);
    if (host_) offload(block);
    index_.erase(block);
    ++evictions_;
  } else {
    return none;
  }
  --available_;
  references_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::retain(BlockId block) {
  if (references_[static_cast<size_t>(block)]++ > 0) return;
  unused_.remove(block);  // of find_prefix() alone: nobody else knows of it
  --available_;
}

void BlockPool::release(BlockId block) {
  if (--references_[static_cast<size_t>(block)] > 0) return;
  ++available_;
  if (is_published(block)) {
    unused_.append(block);
  } else {
    free_.push_back(block);
  }
}

void BlockPool::find_prefix(std::span<const int32_t> tokens, BlockSalts salts, std::vector<BlockId>& found) {
  if (!caching_) return;
  const auto size = static_cast<size_t>(block_size_);
  BlockContent wanted;
  for (size_t at_token = 0; at_token + size <= tokens.size(); at_token += size) {
    const std::span<const int32_t> block_tokens = tokens.subspan(at_token, size);
    wanted.salt = salts.of(at_token / size);
    wanted.hash = hash_(wanted.parent, wanted.salt, block_tokens);
    if (const int32_t block = index_.find(wanted, block_tokens); block != none) {
      retain(block);
      found.push_back(block);
      wanted.parent = index_.at(block).number;
      continue;
    }
    const int32_t slot = host_ ? host_->find(wanted, block_tokens) : none;
    if (slot == none) return;
    found.push_back(in_slot(slot));
    wanted.parent = host_->at(slot).number;
  }
}

int32_t BlockPool::absent(std::span<const BlockId> found) {
  return static_cast<int32_t>(std::ranges::count_if(found, is_absent));
}

void BlockPool::forget_absent(std::vector<BlockId>& found) {
  std::erase_if(found, is_absent);
}

// All slots are pinned first: what makes room in the pool may take slots of others.
void BlockPool::restore(std::span<BlockId> found) {
  for (const BlockId block : found)
    if (is_absent(block)) host_->pin(in_slot(block));
  for (BlockId& block : found) {
    if (!is_absent(block)) continue;
    const int32_t slot = in_slot(block);
    block = allocate();
    index_.insert(block, host_->at(slot), host_->tokens(slot));
    coming_.push_back({slot, block});
    ++restored_;
  }
}

BlockId BlockPool::publish(BlockId block, BlockId parent, uint64_t salt, std::span<const int32_t> tokens) {
  if (!caching_ || is_published(block)) return block;
  BlockContent content;
  content.parent = parent == none ? 0 : index_.at(parent).number;
  content.salt = salt;
  content.hash = hash_(content.parent, salt, tokens);
  const int32_t known = index_.find(content, tokens);
  if (known != none) {  // two sequences computed the same at the same time
    retain(known);
    release(block);
    return known;
  }
  // What was computed although the host's memory has it is the same: what stands behind it there is found again.
  const int32_t slot = host_ ? host_->find(content, tokens) : none;
  content.number = slot == none ? ++last_content_ : host_->at(slot).number;
  index_.insert(block, content, tokens);
  return block;
}

// It is there already where it has come back from there.
void BlockPool::offload(int32_t block) {
  const BlockContent& content = index_.at(block);
  if (const int32_t slot = host_->find(content, index_.tokens(block)); slot != none) return host_->touch(slot);
  const int32_t slot = host_->insert(content, index_.tokens(block));
  if (slot == none) return;
  leaving_.push_back({block, slot});
  ++offloaded_;
}

void BlockPool::finish_copies() {
  if (!host_) return;
  leaving_.clear();
  coming_.clear();
  host_->unpin_all();
}

void BlockPool::abandon_copies() {
  for (const BlockCopy& copy : coming_) unpublish(copy.to);
  for (const BlockCopy& copy : leaving_) host_->forget(copy.to);
  finish_copies();
}

// Contents have numbers that never come again, so what is behind a block that was lost is not found behind another one
// in the same place.
void BlockPool::unpublish(int32_t block) {
  if (!is_published(block)) return;
  index_.erase(block);
  if (references_[static_cast<size_t>(block)] > 0) return;
  unused_.remove(block);
  free_.push_back(block);
}

}  // namespace camshaft::llm
