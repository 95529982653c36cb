// The best elements of a line so far: what top_k.cpp and top_k_columns.cpp share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "backends/cpu/kernels/element_types.h"
#include "base/work_scope.h"

namespace camshaft::cpu {

__extension__ using Entry128 = unsigned __int128;

// The best elements so far. An entry is the key (made unsigned) above the complement of the index: larger is better.
template <class Key, class Entry>
struct Candidates {
  using EntryType = Entry;
  static constexpr int64_t most_sorted = 32, many = 1 << 20;
  static constexpr int key_bits = sizeof(Key) * 8;
  using Unsigned = std::make_unsigned_t<Key>;
  static constexpr Unsigned sign = Unsigned{1} << (key_bits - 1);

  Entry* list;
  int64_t room, k, count;
  Key least;  // keys up to this one cannot be among the k best
  bool full;  // there are k of them

  static Entry entry(Key key, int64_t index) {
    return static_cast<Entry>(static_cast<Unsigned>(key) ^ sign) << key_bits |
           (Unsigned{0xffffffffu} - static_cast<Unsigned>(index));
  }
  static Key key_of(Entry entry) { return static_cast<Key>(static_cast<Unsigned>(entry >> key_bits) ^ sign); }
  // Millions are in the list where k is so large: sorting it asks whether to stop.
  static auto before() {
    return [cancellation = PacedCancellation()](Entry a, Entry b) mutable {
      cancellation.did(1);
      return a > b;
    };
  }
  void sort() {
    if (k <= most_sorted) return;
    if (k < many) return std::sort(list, list + k, std::greater<>());
    auto order = before();
    std::sort(list, list + k, std::ref(order));
  }
  static int64_t index_of(Entry entry) {
    return static_cast<int64_t>(Unsigned{0xffffffffu} - static_cast<Unsigned>(entry));
  }

  void add(Key key, int64_t index) {
    if (k <= most_sorted) return insert(entry(key, index));
    list[count++] = entry(key, index);
    if (count == room) shrink();
  }
  // Few are kept in order from the start: then `least` is known when there are k, and few more come (the 10 largest of
  // each 1000 of 10^5 took 327 us, most of it to fill and cut buffers).
  void insert(Entry added) {
    int64_t at = count < k ? count : k - 1;
    for (; at > 0 && list[at - 1] < added; --at) list[at] = list[at - 1];
    list[at] = added;
    count = std::min(count + 1, k);
    full = count == k;
    if (full) least = key_of(list[k - 1]);
  }
  void shrink() {
    if (k <= most_sorted) return;
    auto order = before();
    if (count > k && count < many) std::nth_element(list, list + k - 1, list + count, std::greater<>());
    if (count > k && count >= many) std::nth_element(list, list + k - 1, list + count, std::ref(order));
    count = std::min(count, k);
    full = count == k;
    // Elements to come have higher indices: those equal to the k-th best lose against it.
    if (full) least = key_of(list[k - 1]);
  }
};
/// Indices are below 2^32, so that keys of up to 32 bits and an index are one word.
using Candidates32 = Candidates<int32_t, uint64_t>;
using Candidates64 = Candidates<int64_t, Entry128>;
template <class T>
using CandidatesOf = std::conditional_t<(sizeof(T) < 8), Candidates32, Candidates64>;

}  // namespace camshaft::cpu
