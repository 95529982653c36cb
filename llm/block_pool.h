// Blocks of the cache of keys and values: who uses which, and which tokens the full ones hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "llm/block_index.h"
#include "llm/host_blocks.h"

namespace camshaft::llm {

using BlockId = int32_t;

/// A block's contents that are copied, before a step, into another block. Of those that leave for the host's memory or
/// come from there, one of both is a slot of that.
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
/// their memory is needed: the one that was not used for longest goes first. Where there are slots in the host's memory
/// it goes there, and comes back when it is found again. Allocates nothing after it was made. Not safe from several
/// threads.
class BlockPool {
 public:
  /// The hash of a full block: of what is in front of it, and of its tokens. Tokens are compared as well, so that a
  /// collision costs time only.
  using Hash = uint64_t (*)(uint64_t parent, uint64_t salt, std::span<const int32_t> tokens);

  /// `caching`: whether full blocks are found again. `hash`: null for the usual one. `host_blocks`: slots in the host's
  /// memory. Throws Error(invalid_argument) for sizes below 1, and for slots without caching.
  BlockPool(int32_t blocks, int32_t block_size, bool caching = true, Hash hash = nullptr, int32_t host_blocks = 0);

  int32_t size() const { return static_cast<int32_t>(references_.size()); }
  int32_t block_size() const { return block_size_; }
  /// How many could be allocated: those without a reference.
  int32_t available() const { return available_; }
  int32_t references(BlockId block) const { return references_[static_cast<size_t>(block)]; }
  bool is_published(BlockId block) const { return caching_ && index_.at(block).number != 0; }
  int64_t evictions() const { return evictions_; }
  int32_t host_size() const { return host_ ? host_->size() : 0; }
  /// Blocks that were copied into the host's memory, and those that came back.
  int64_t offloaded() const { return offloaded_; }
  int64_t restored() const { return restored_; }

  /// A block with one reference, whose contents are undefined; -1 when all are in use.
  BlockId allocate();
  /// Another reference to a block that has one.
  void retain(BlockId block);
  /// Gives one up. Blocks of a sequence are released from its end, so that what is behind a prefix is evicted before
  /// it.
  void release(BlockId block);

  /// Appends the longest chain of known full blocks that `tokens` begin with, with a reference to each. Those that only
  /// the host's memory has come as numbers below 0, for restore() or forget_absent().
  void find_prefix(std::span<const int32_t> tokens, BlockSalts salts, std::vector<BlockId>& found);
  /// How many of a chain are in the host's memory alone.
  static int32_t absent(std::span<const BlockId> found);
  /// Gives each of these a block, of which so many are available: its contents are there when the step's copies are
  /// done. Nothing else has been asked of the pool since find_prefix().
  void restore(std::span<BlockId> found);
  /// Takes these out of a chain that is not wanted.
  static void forget_absent(std::vector<BlockId>& found);

  /// Copies between the pool and the host's memory that are to be done before anybody writes into blocks: first all
  /// that leave (from a block to a slot), then all that come (from a slot to a block), each in their order. What is
  /// copied within the pool for the same step is copied between these.
  std::span<const BlockCopy> leaving() const { return leaving_; }
  std::span<const BlockCopy> coming() const { return coming_; }
  /// They have been done.
  void finish_copies();
  /// They have not been done: what they would have written is not known any more. Whoever holds a block of coming()
  /// ends before the next step.
  void abandon_copies();

  /// Says that the keys and values of `tokens`, a block of them, are in `block`, whose caller holds a reference.
  /// `parent`: the published block in front of it, or -1. Keys and values that depend on more than tokens (adapters,
  /// tenants) differ in `salt`. Returns the block to use from now on: another one, in exchange for the reference, where
  /// the same is there already.
  BlockId publish(BlockId block, BlockId parent, uint64_t salt, std::span<const int32_t> tokens);

 private:
  static constexpr int32_t none = BlockIndex::none;
  void unpublish(int32_t block);
  void offload(int32_t block);

  int32_t block_size_;
  bool caching_;
  Hash hash_;
  std::vector<int32_t> references_;
  BlockIndex index_;           ///< of published blocks
  UseOrder unused_;            ///< published blocks without a reference
  std::vector<int32_t> free_;  ///< unreferenced and not published
  int32_t available_ = 0;
  uint64_t last_content_ = 0;
  int64_t evictions_ = 0;

  std::optional<HostBlocks> host_;
  std::vector<BlockCopy> leaving_, coming_;
  int64_t offloaded_ = 0, restored_ = 0;
};

}  // namespace camshaft::llm
