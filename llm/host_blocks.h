// The second tier of the cache of keys and values: full blocks in the host's memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "llm/block_index.h"

namespace camshaft::llm {

/// A fixed number of slots, each with room for a block, of which the one that was not used for longest is taken for
/// another content. What comes back from a slot stays in it: a full block does not change, and needs no second copy
/// when it leaves the pool again. Allocates nothing after it was made.
class HostBlocks {
 public:
  static constexpr int32_t none = BlockIndex::none;

  HostBlocks(int32_t slots, int32_t block_size);

  int32_t size() const { return static_cast<int32_t>(is_pinned_.size()); }
  const BlockContent& at(int32_t slot) const { return index_.at(slot); }
  std::span<const int32_t> tokens(int32_t slot) const { return index_.tokens(slot); }
  int32_t find(const BlockContent& wanted, std::span<const int32_t> tokens) const {
    return index_.find(wanted, tokens);
  }
  /// Takes a slot for a content that has none; none when all are pinned.
  int32_t insert(const BlockContent& content, std::span<const int32_t> tokens);
  /// It was used now.
  void touch(int32_t slot);
  /// It keeps what it holds until unpin_all().
  void pin(int32_t slot);
  void unpin_all();
  /// What it should hold was not written.
  void forget(int32_t slot);

 private:
  BlockIndex index_;
  UseOrder used_;              ///< those that hold something and are not pinned
  std::vector<int32_t> free_;  ///< those that hold nothing
  std::vector<uint8_t> is_pinned_;
  std::vector<int32_t> pinned_;
};

}  // namespace camshaft::llm
