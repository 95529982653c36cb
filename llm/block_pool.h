// Blocks of the cache of keys and values: who uses which, and which tokens the full ones hold.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace camshaft::llm {

using BlockId = int32_t;

/// A block's contents that are copied, before a step, into another block.
struct BlockCopy {
  BlockId from = 0, to = 0;
};

/// What keys and values depend on beside tokens (adapters, tenants, pictures): one number for all blocks of a sequence,
/// but where `first` has others for those that it begins with.
struct BlockSalts {
  BlockSalts(uint64_t all, std::span<const uint64_t> first = {}) : all(all), first(first) {}  // NOLINT: a salt is one
  uint64_t of(size_t block) const { return block < first.size() ? first[block] : all; }

  uint64_t all;
  std::span<const uint64_t> first;
};

/// A fixed number of blocks of `block_size` tokens each. Sequences hold references; full blocks are found again by the
/// tokens in them and in front of them, by whatever sequence they were computed, and stay so without a reference until
/// their memory is needed: the one that was not used for longest goes first. Allocates nothing after it was made. Not
/// safe from several threads.
class BlockPool {
 public:
  /// The hash of a full block: of what is in front of it, and of its tokens. Tokens are compared as well, so that a
  /// collision costs time only.
  using Hash = uint64_t (*)(uint64_t parent, uint64_t salt, std::span<const int32_t> tokens);

  /// `caching`: whether full blocks are found again. `hash`: null for the usual one. Throws Error(invalid_argument) for
  /// sizes below 1.
  BlockPool(int32_t blocks, int32_t block_size, bool caching = true, Hash hash = nullptr);

  int32_t size() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t block_size() const { return block_size_; }
  /// How many could be allocated: those without a reference.
  int32_t available() const { return available_; }
  int32_t references(BlockId block) const { return blocks_[static_cast<size_t>(block)].references; }
  bool is_published(BlockId block) const { return blocks_[static_cast<size_t>(block)].content != 0; }
  int64_t evictions() const { return evictions_; }

  /// A block with one reference, whose contents are undefined; -1 when all are in use.
  BlockId allocate();
  /// Another reference to a block that has one.
  void retain(BlockId block);
  /// Gives one up. Blocks of a sequence are released from its end, so that what is behind a prefix is evicted before
  /// it.
  void release(BlockId block);

  /// Appends the longest chain of known full blocks that `tokens` begin with, with a reference to each.
  void find_prefix(std::span<const int32_t> tokens, BlockSalts salts, std::vector<BlockId>& found);
  /// Says that the keys and values of `tokens`, a block of them, are in `block`, whose caller holds a reference.
  /// `parent`: the published block in front of it, or -1. Keys and values that depend on more than tokens (adapters,
  /// tenants) differ in `salt`. Returns the block to use from now on: another one, in exchange for the reference, where
  /// the same is there already.
  BlockId publish(BlockId block, BlockId parent, uint64_t salt, std::span<const int32_t> tokens);

 private:
  static constexpr int32_t none = -1;
  struct Block {
    int32_t references = 0;
    int32_t before = none, after = none;  ///< in the list of unreferenced published blocks, the oldest first
    int32_t next = none;                  ///< in the bucket of its hash
    uint64_t content = 0;                 ///< a number of its own for what a published block holds; 0: not published
    uint64_t parent = 0;                  ///< the content in front of it; 0: none
    uint64_t salt = 0;
    uint64_t hash = 0;
  };

  Block& at(int32_t block) { return blocks_[static_cast<size_t>(block)]; }
  std::span<int32_t> tokens_of(int32_t block);
  int32_t lookup(uint64_t hash, uint64_t parent, uint64_t salt, std::span<const int32_t> tokens);
  void unpublish(int32_t block);
  void append_to_list(int32_t block);
  void remove_from_list(int32_t block);

  int32_t block_size_;
  bool caching_;
  Hash hash_;
  std::vector<Block> blocks_;
  std::vector<int32_t> tokens_;   ///< of published blocks
  std::vector<int32_t> buckets_;  ///< the first block of each
  std::vector<int32_t> free_;     ///< unreferenced and not published
  int32_t oldest_ = none, newest_ = none;
  int32_t available_ = 0;
  uint64_t last_content_ = 0;
  int64_t evictions_ = 0;
};

}  // namespace camshaft::llm
