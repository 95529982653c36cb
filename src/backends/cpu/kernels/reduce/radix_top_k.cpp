#include "backends/cpu/kernels/reduce/radix_top_k.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace camshaft::cpu {
namespace {

constexpr int digit_bits = 8, bins = 1 << digit_bits;
constexpr int64_t elements_a_part = 1 << 14;  // between two questions whether to stop

// Larger for better elements: -0 is 0, and NaN is above all.
template <class T>
auto rank_of(T x) {
  using Key = decltype(RadixEntry<T>::key);
  constexpr Key sign = Key{1} << (8 * sizeof(T) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    const auto bits = std::bit_cast<Key>(x + T{0});
    const Key key = bits ^ (bits & sign ? ~Key{0} : sign);
    return x != x ? std::numeric_limits<Key>::max() : key;
  } else {
    return static_cast<Key>(std::is_signed_v<T> ? static_cast<Key>(x) ^ sign : static_cast<Key>(x));
  }
}

// Calls body(i) for i < count.
template <class Body>
void for_each_of(int64_t count, PacedCancellation& cancellation, const Body& body) {
  for (int64_t begin = 0; begin < count; begin += elements_a_part) {
    const int64_t end = std::min(count, begin + elements_a_part);
    cancellation.did(end - begin);
    for (int64_t i = begin; i < end; ++i) body(i);
  }
}

}  // namespace

template <class T>
const RadixEntry<T>* radix_top_k(const T* line, int64_t count, bool largest, RadixEntry<T>* scratch,
                                 PacedCancellation& cancellation) {
  using Key = decltype(RadixEntry<T>::key);
  constexpr int digits = sizeof(T);
  RadixEntry<T>*from = scratch, *to = scratch + count;
  uint32_t counts[digits][bins] = {};
  const Key flip = largest ? ~Key{0} : Key{0};
  for_each_of(count, cancellation, [&](int64_t i) {
    const Key key = rank_of(line[i]) ^ flip;
    from[i] = {key, static_cast<uint32_t>(i)};
#pragma GCC unroll 8
    for (int d = 0; d < digits; ++d) ++counts[d][key >> (d * digit_bits) & (bins - 1)];
  });
  for (int d = 0; d < digits; ++d) {
    const auto digit = [&](const RadixEntry<T>& entry) { return entry.key >> (d * digit_bits) & (bins - 1); };
    if (counts[d][digit(from[0])] == count) continue;  // all have it
    uint32_t places[bins], before = 0;
    for (int b = 0; b < bins; ++b) places[b] = std::exchange(before, before + counts[d][b]);
    for_each_of(count, cancellation, [&](int64_t i) { to[places[digit(from[i])]++] = from[i]; });
    std::swap(from, to);
  }
  return from;
}

#define CAMSHAFT_RADIX(T) \
  template const RadixEntry<T>* radix_top_k(const T*, int64_t, bool, RadixEntry<T>*, PacedCancellation&);
CAMSHAFT_RADIX(float)
CAMSHAFT_RADIX(double)
CAMSHAFT_RADIX(int32_t)
CAMSHAFT_RADIX(uint32_t)
CAMSHAFT_RADIX(int64_t)
CAMSHAFT_RADIX(uint64_t)
#undef CAMSHAFT_RADIX

}  // namespace camshaft::cpu
