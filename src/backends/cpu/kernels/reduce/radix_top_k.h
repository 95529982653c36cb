// Lines of 32 and 64 bits an element of which many are wanted: sorted digit by digit. Internal to top_k.h.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/work_scope.h"

namespace camshaft::cpu {

/// An element's place in the line, and a number that is the smaller the better it is.
template <class T>
struct RadixEntry {
  std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t> key;
  uint32_t index;
};

/// Lines of so many elements for which that pays: shorter ones are ranked or sorted by comparisons in the time that the
/// counts of all digits take; a longer one's entries, twice, would be much memory.
constexpr int64_t least_radix = 128, most_radix = 1 << 21;

/// The elements of line[0 … count-1] in order, the best first; of equal elements the lower index comes first. In
/// `scratch`, 2 · count entries. 1 <= count <= most_radix. 1000 f32 take 6 us; by comparisons they took 50. Least
/// significant digit first, as in Knuth, The Art of Computer Programming 3, 5.2.5 (algorithm R).
template <class T>
const RadixEntry<T>* radix_top_k(const T* line, int64_t count, bool largest, RadixEntry<T>* scratch,
                                 PacedCancellation& cancellation);

}  // namespace camshaft::cpu
