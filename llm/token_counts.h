// Which tokens a sequence has, and how often: what penalties are made of.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace camshaft::llm {

/// Room for a number of different tokens is made at once; nothing is allocated later.
class TokenCounts {
 public:
  struct Entry {
    int32_t token = 0;
    int32_t generated = 0;  ///< times in the text
    bool in_prompt = false;
  };

  explicit TokenCounts(size_t most) : places_(std::bit_ceil(2 * most + 2), -1) { entries_.reserve(most); }

  void add_prompt(int32_t token) { entry(token).in_prompt = true; }
  void add(int32_t token) { ++entry(token).generated; }
  /// Takes one add() back.
  void remove(int32_t token) { --entry(token).generated; }
  /// Entries with nothing but zeros are of tokens that were taken back.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  Entry& entry(int32_t token) {
    size_t place = static_cast<uint32_t>(token) * size_t{0x9E3779B1u} & (places_.size() - 1);
    while (places_[place] >= 0 && entries_[static_cast<size_t>(places_[place])].token != token)
      place = (place + 1) & (places_.size() - 1);
    if (places_[place] < 0) {
      places_[place] = static_cast<int32_t>(entries_.size());
      entries_.push_back({token, 0, false});
    }
    return entries_[static_cast<size_t>(places_[place])];
  }

  std::vector<Entry> entries_;
  std::vector<int32_t> places_;
};

}  // namespace camshaft::llm
