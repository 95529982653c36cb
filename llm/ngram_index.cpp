#include "llm/ngram_index.h"

#include <algorithm>
#include <bit>

namespace camshaft::llm {

namespace {
// A text of one repeated token has one chain of everything: the newest ones are as good as any.
constexpr int most_candidates = 64;
}  // namespace

NgramIndex::NgramIndex(int32_t least, int32_t most, size_t capacity)
    : least_(static_cast<size_t>(least)),
      most_(static_cast<size_t>(most)),
      newest_(std::bit_ceil(std::max<size_t>(capacity, 16)), -1),
      previous_(capacity + 1, -1) {}

// Of the `least_` tokens that end before `end`.
size_t NgramIndex::bucket(std::span<const int32_t> tokens, size_t end) const {
  uint64_t hash = 0;
  for (size_t i = end - least_; i < end; ++i) hash = (hash ^ static_cast<uint32_t>(tokens[i])) * 0x9E3779B97F4A7C15u;
  return (hash >> 32) & (newest_.size() - 1);
}

void NgramIndex::extend(std::span<const int32_t> tokens) {
  for (learnt_ = std::max(learnt_, least_); learnt_ < tokens.size(); ++learnt_) {
    int32_t& newest = newest_[bucket(tokens, learnt_)];
    previous_[learnt_] = newest;
    newest = static_cast<int32_t>(learnt_);
  }
}

void NgramIndex::propose(std::span<const int32_t> tokens, int32_t count, std::vector<int32_t>& proposed) const {
  proposed.clear();
  const size_t size = tokens.size();
  if (size <= least_ || count <= 0) return;
  // Of matches that are equally long the one with more behind it, and the newer one of these: in a text that repeats
  // itself the newest ends just before the end.
  size_t best = 0, longest = least_ - 1, behind = 0;
  int32_t end = newest_[bucket(tokens, size)];
  for (int tried = 0; end >= 0 && tried < most_candidates; ++tried, end = previous_[static_cast<size_t>(end)]) {
    const auto at = static_cast<size_t>(end);
    size_t length = 0;
    while (length < most_ && length < at && tokens[at - 1 - length] == tokens[size - 1 - length]) ++length;
    const size_t follow = std::min(static_cast<size_t>(count), size - at);
    if (length < least_ || length < longest || (length == longest && follow <= behind)) continue;
    best = at;
    longest = length;
    behind = follow;
    if (longest == most_ && behind == static_cast<size_t>(count)) break;
  }
  if (best == 0) return;
  for (size_t i = 0; i < behind; ++i) proposed.push_back(tokens[best + i]);
}

}  // namespace camshaft::llm
