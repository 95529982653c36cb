// Lists of 64-bit numbers beside tensors of indices.
#pragma once

#include "base/budget.h"
#include "ir/tensor.h"

namespace camshaft::ops {

/// Of so many lists with a number for each index, as long as it lives: a file of 300 bytes that gathers one element
/// 4·10^8 times took 3.2 GB beside its tensors.
inline MemoryClaim claim_index_lists(const Tensor& indices, size_t lists) {
  return MemoryClaim(lists * sizeof(int64_t) * static_cast<size_t>(indices.size()));
}

}  // namespace camshaft::ops
