#include "backends/cpu/kernels/reduce/narrow_top_k.h"

#include <algorithm>
#include <type_traits>

namespace camshaft::cpu {
namespace {

constexpr int64_t elements_a_part = 1 << 16;  // between two questions whether to stop
constexpr int bins = 256;

// Calls body(i) for i < count.
template <class Body>
void for_each_of(int64_t count, PacedCancellation& cancellation, const Body& body) {
  for (int64_t begin = 0; begin < count; begin += elements_a_part) {
    const int64_t end = std::min(count, begin + elements_a_part);
    cancellation.did(end - begin);
    for (int64_t i = begin; i < end; ++i) body(i);
  }
}

// A number that is larger the better the element is.
template <class T>
struct KeyOf {
  using Key = std::make_unsigned_t<T>;
  Key flip;
  explicit KeyOf(bool largest)
      : flip(static_cast<Key>((std::is_signed_v<T> ? 1u << (8 * sizeof(T) - 1) : 0u) ^ (largest ? 0u : ~0u))) {}
  unsigned operator()(T x) const { return static_cast<Key>(static_cast<Key>(x) ^ flip); }
};

// places[b] = how many elements are in better bins than b.
void places_of_counts(const uint32_t* counts, int64_t* places) {
  int64_t before = 0;
  for (int b = bins; b-- > 0;) {
    places[b] = before;
    before += counts[b];
  }
}

// order[] = index_of(i), i < count, by one digit of their keys, the best first; equals stay in order. Those that have
// no place among the first k go to order[k].
template <class IndexOf, class DigitOf>
void sort_by_digit(int64_t count, int64_t k, const IndexOf& index_of, const DigitOf& digit_of, uint32_t* order,
                   PacedCancellation& cancellation) {
  // Counts of neighbours apart: equal ones would wait for each other.
  uint32_t counts[4][bins] = {};
  for_each_of(count, cancellation, [&](int64_t i) { ++counts[i & 3][digit_of(index_of(i))]; });
  for (int b = 0; b < bins; ++b) counts[0][b] += counts[1][b] + counts[2][b] + counts[3][b];
  int64_t places[bins];
  places_of_counts(counts[0], places);
  for_each_of(count, cancellation, [&](int64_t i) {
    const uint32_t index = index_of(i);
    // The lesser of the place and k, without a branch, which nothing could predict.
    int64_t& place = places[digit_of(index)];
    const int64_t beyond = place - k;
    order[k + (beyond & (beyond >> 63))] = index;
    ++place;
  });
}

}  // namespace

template <class T>
void narrow_top_k(const T* line, int64_t count, int64_t k, bool largest, uint32_t* order,
                  PacedCancellation& cancellation) {
  const KeyOf<T> key_of(largest);
  const auto itself = [](int64_t i) { return static_cast<uint32_t>(i); };
  const auto low = [&](uint32_t index) { return key_of(line[index]) & 0xff; };
  if constexpr (sizeof(T) == 1) {
    sort_by_digit(count, k, itself, low, order, cancellation);
  } else {
    // The k-th best key: its upper half by one count, the lower half by a count of those that share it.
    uint32_t counts[bins] = {}, within[bins] = {};
    int64_t better[bins];
    const auto bin_of = [&](int64_t place) {  // the last bin that fewer than `place` elements are better than
      int b = 0;
      while (better[b] >= place) ++b;
      return static_cast<unsigned>(b);
    };
    for_each_of(count, cancellation, [&](int64_t i) { ++counts[key_of(line[i]) >> 8]; });
    places_of_counts(counts, better);
    const unsigned upper = bin_of(k);
    const int64_t left = k - better[upper];
    for_each_of(count, cancellation, [&](int64_t i) {
      const unsigned key = key_of(line[i]);
      within[key & 0xff] += key >> 8 == upper;
    });
    places_of_counts(within, better);
    const unsigned lower = bin_of(left), least = upper << 8 | lower;
    int64_t equals = left - better[lower];  // that are among the k best
    // Those, in the order of the line; then by the lower half and by the upper.
    uint32_t* const chosen = order;
    uint32_t* const sorted = order + k + 1;
    int64_t n = 0;
    for_each_of(count, cancellation, [&](int64_t i) {
      const unsigned key = key_of(line[i]);
      const bool is_equal = (key == least) & (equals > 0);
      chosen[n] = static_cast<uint32_t>(i);
      n += (key > least) | is_equal;
      equals -= is_equal;
    });
    sort_by_digit(
        k, k, [&](int64_t i) { return chosen[i]; }, low, sorted, cancellation);
    const auto high = [&](uint32_t index) { return key_of(line[index]) >> 8; };
    sort_by_digit(
        k, k, [&](int64_t i) { return sorted[i]; }, high, order, cancellation);
  }
}

template void narrow_top_k(const int8_t*, int64_t, int64_t, bool, uint32_t*, PacedCancellation&);
template void narrow_top_k(const uint8_t*, int64_t, int64_t, bool, uint32_t*, PacedCancellation&);
template void narrow_top_k(const int16_t*, int64_t, int64_t, bool, uint32_t*, PacedCancellation&);
template void narrow_top_k(const uint16_t*, int64_t, int64_t, bool, uint32_t*, PacedCancellation&);

}  // namespace camshaft::cpu
