// Which places of a memory hold which full blocks of tokens, and which of them was used last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace camshaft::llm {

/// What a full block holds: tokens, behind those of another one.
struct BlockContent {
  uint64_t number = 0;  ///< its own, which never comes again; 0: nothing
  uint64_t parent = 0;  ///< the number of what is in front of it; 0: nothing is
  uint64_t salt = 0;    ///< of what keys and values depend on beside tokens
  uint64_t hash = 0;    ///< of all of that
};

/// Contents by place, which are found by what is in front of them, their salt and their tokens. Allocates nothing after
/// it was made.
class BlockIndex {
 public:
  static constexpr int32_t none = -1;

  BlockIndex(int32_t places, int32_t block_size);

  const BlockContent& at(int32_t place) const { return entries_[static_cast<size_t>(place)].content; }
  std::span<const int32_t> tokens(int32_t place) const;
  /// The place of a content, whose number is not looked at; or none.
  int32_t find(const BlockContent& wanted, std::span<const int32_t> tokens) const;
  /// Into a place that holds nothing.
  void insert(int32_t place, const BlockContent& content, std::span<const int32_t> tokens);
  /// Out of one that holds something.
  void erase(int32_t place);

 private:
  struct Entry {
    BlockContent content;
    int32_t next = none;  ///< in the bucket of its hash
  };
  size_t bucket_of(uint64_t hash) const { return hash & (buckets_.size() - 1); }

  size_t block_size_;
  std::vector<Entry> entries_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> buckets_;  ///< the first place of each
};

/// Places in the order of their use.
class UseOrder {
 public:
  static constexpr int32_t none = -1;

  explicit UseOrder(int32_t places) : links_(static_cast<size_t>(places)) {}

  /// The one that was not used for longest; or none.
  int32_t oldest() const { return oldest_; }
  /// One that is not in it becomes the newest.
  void append(int32_t place);
  void remove(int32_t place);

 private:
  struct Link {
    int32_t before = none, after = none;
  };
  Link& at(int32_t place) { return links_[static_cast<size_t>(place)]; }

  std::vector<Link> links_;
  int32_t oldest_ = none, newest_ = none;
};

}  // namespace camshaft::llm
