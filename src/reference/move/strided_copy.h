// Copies between strided views: the one loop nest behind transpose, expand, concat and slice. Internal to the
// reference.
#pragma once

#include "base/thread_pool.h"
#include "ir/tensor.h"

namespace camshaft::ops {

/// A box of elements: element (i0, i1, …) is at source_offset + Σ i·source_strides and goes to target_offset +
/// Σ i·target_strides. In elements; source strides may be 0 or negative.
struct StridedBox {
  Dims sizes;
  Dims source_strides;
  Dims target_strides;
  int64_t source_offset = 0;
  int64_t target_offset = 0;
};

/// Copies a box, on all threads where that pays, to elements of the same dtype, not a 4-bit one. The box must lie
/// inside both.
void copy_strided(const StridedBox& box, const Tensor& source, std::byte* target, ThreadPool& pool);

/// A tensor of the box's sizes, whose target is all of it.
Tensor copied(const StridedBox& box, const Tensor& source, ThreadPool& pool);

}  // namespace camshaft::ops
