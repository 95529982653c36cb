// Broadcasting and strided walks, shared by the reference evaluations.
#pragma once

#include <algorithm>

#include "ir/graph.h"
#include "ir/ops/shape_rules.h"

namespace camshaft::ops {

/// NumPy broadcasting; throws Error(invalid_model) naming both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b);

/// The strides with which a dense operand is read along each axis of `out`: 0 where it is broadcast. Throws
/// Error(invalid_argument) naming both when it does not broadcast to `out`.
Dims broadcast_strides(const Dims& operand, const Dims& out);
/// The same of symbolic shapes, of which `operand` does broadcast to `out`. Where only running tells whether a size is
/// 1 or the other's, its stride has a factor that is 0 or 1.
Shape broadcast_strides(const Shape& operand, const Shape& out);

/// A loop over `sizes` that reads several operands, each with a stride an axis.
struct LoopNest {
  Dims sizes;                 ///< never empty
  std::vector<Dims> strides;  ///< [operand][axis]
  int64_t total() const { return element_count(sizes); }
};

/// Leaves out axes of size 1 and merges neighbours that every operand walks as one: long inner loops.
LoopNest collapse(const Dims& sizes, const std::vector<Dims>& strides);

/// Visits the positions [begin, end) of the loop in row-major order, in runs along the last axis:
/// run(position, offsets, count), with `offsets[operand]` where the run starts; along the run, operand `o` advances
/// nest.strides[o].back() an element.
template <class Run>
void for_runs(const LoopNest& nest, int64_t begin, int64_t end, Run&& run) {
  if (begin >= end) return;
  const size_t rank = nest.sizes.size(), operands = nest.strides.size();
  Dims at(rank), offsets(operands, 0);
  int64_t rest = begin;
  for (size_t axis = rank; axis-- > 0;) {
    at[axis] = rest % nest.sizes[axis];
    rest /= nest.sizes[axis];
    for (size_t o = 0; o < operands; ++o) offsets[o] += at[axis] * nest.strides[o][axis];
  }
  for (int64_t position = begin; position < end;) {
    const int64_t count = std::min(nest.sizes[rank - 1] - at[rank - 1], end - position);
    run(position, static_cast<const Dims&>(offsets), count);
    position += count;
    at[rank - 1] += count;
    for (size_t o = 0; o < operands; ++o) offsets[o] += count * nest.strides[o][rank - 1];
    for (size_t axis = rank; axis-- > 1 && at[axis] == nest.sizes[axis];) {
      at[axis] = 0;
      ++at[axis - 1];
      for (size_t o = 0; o < operands; ++o)
        offsets[o] += nest.strides[o][axis - 1] - nest.sizes[axis] * nest.strides[o][axis];
    }
  }
}

}  // namespace camshaft::ops
