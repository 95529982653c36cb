// The k largest or smallest of a line of 8 or 16 bits, by counting. Internal to top_k.h.
#pragma once

#include <cstdint>

#include "base/work_scope.h"

namespace camshaft::cpu {

/// order[i], i < k: where the i-th best of line[0 … count-1] is; of equal elements the lower index comes first. `order`
/// has room for 2 (k + 1) indices. 1 <= k <= count < 2^32. T: an integer of 8 or 16 bits. Takes some nanoseconds an
/// element, whatever k is.
template <class T>
void narrow_top_k(const T* line, int64_t count, int64_t k, bool largest, uint32_t* order,
                  PacedCancellation& cancellation);

}  // namespace camshaft::cpu
