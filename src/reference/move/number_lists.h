// Lists of 64-bit numbers beside tensors, one for each index or element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/budget.h"

namespace camshaft::ops {

/// Of lists with so many numbers in all, as long as it lives: a file of 300 bytes that gathers one element 4·10^8 times
/// took 3.2 GB beside its tensors.
inline MemoryClaim claim_numbers(int64_t count) {
  return MemoryClaim(sizeof(int64_t) * static_cast<size_t>(count));
}

}  // namespace camshaft::ops
