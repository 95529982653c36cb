// Prompt lookup: what followed the last tokens of a text when they stood in it before.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace camshaft::llm {

/// Positions of a sequence's n-grams, in chains by the hash of their `least` last tokens, as compressors of the LZ77
/// family keep them. Room is made at once; adding a token and looking up take constant time.
class NgramIndex {
 public:
  /// Looks for the `most` last tokens, then for fewer, down to `least`. `capacity`: of the longest sequence.
  NgramIndex(int32_t least, int32_t most, size_t capacity);

  /// Learns what stands in front of the last token. Tokens that were given before must not have changed.
  void extend(std::span<const int32_t> tokens);
  /// Up to `count` tokens that stood behind the longest of the last n-grams; extend() comes first.
  void propose(std::span<const int32_t> tokens, int32_t count, std::vector<int32_t>& proposed) const;

 private:
  size_t bucket(std::span<const int32_t> tokens, size_t end) const;

  size_t least_, most_;
  std::vector<int32_t> newest_;    ///< by bucket: the end of the last n-gram in it, or -1
  std::vector<int32_t> previous_;  ///< by end: that of the one before
  size_t learnt_ = 0;              ///< ends below this are in the chains
};

}  // namespace camshaft::llm
