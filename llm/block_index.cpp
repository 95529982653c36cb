#include "llm/block_index.h"

#include <algorithm>
#include <bit>

namespace camshaft::llm {

BlockIndex::BlockIndex(int32_t places, int32_t block_size)
    : block_size_(static_cast<size_t>(block_size)),
      entries_(static_cast<size_t>(places)),
      tokens_(entries_.size() * block_size_),
      buckets_(std::bit_ceil(std::max<size_t>(entries_.size() * 2, 1)), none) {}

std::span<const int32_t> BlockIndex::tokens(int32_t place) const {
  return {tokens_.data() + static_cast<size_t>(place) * block_size_, block_size_};
}

int32_t BlockIndex::find(const BlockContent& wanted, std::span<const int32_t> tokens) const {
  for (int32_t place = buckets_[bucket_of(wanted.hash)]; place != none;
       place = entries_[static_cast<size_t>(place)].next) {
    const BlockContent& known = at(place);
    if (known.hash == wanted.hash && known.parent == wanted.parent && known.salt == wanted.salt &&
        std::ranges::equal(this->tokens(place), tokens))
      return place;
  }
  return none;
}

void BlockIndex::insert(int32_t place, const BlockContent& content, std::span<const int32_t> tokens) {
  Entry& entry = entries_[static_cast<size_t>(place)];
  entry.content = content;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(place) * block_size_));
  int32_t& bucket = buckets_[bucket_of(content.hash)];
  entry.next = bucket;
  bucket = place;
}

void BlockIndex::erase(int32_t place) {
  Entry& entry = entries_[static_cast<size_t>(place)];
  int32_t* link = &buckets_[bucket_of(entry.content.hash)];
  while (*link != place) link = &entries_[static_cast<size_t>(*link)].next;
  *link = entry.next;
  entry.content.number = 0;
}

void UseOrder::append(int32_t place) {
  at(place) = {newest_, none};
  (newest_ == none ? oldest_ : at(newest_).after) = place;
  newest_ = place;
}

void UseOrder::remove(int32_t place) {
  const Link removed = at(place);
  (removed.before == none ? oldest_ : at(removed.before).after) = removed.after;
  (removed.after == none ? newest_ : at(removed.after).before) = removed.before;
}

}  // namespace camshaft::llm
