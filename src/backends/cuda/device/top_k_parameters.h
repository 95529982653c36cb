// What selecting the first k of each line is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Keys that a block sorts in shared memory.
constexpr u32 chunk_keys = 2048;

/// Lines along the middle of [outer, axis, inner]. Each block sorts a chunk of a line and keeps the first of it.
struct TopKParameters {
  u32 axis = 0, k = 0;                   ///< elements of a line of the operand, and of the results
  u32 count = 0, keep = 0;               ///< keys of a line in this round, and that each chunk keeps
  u32 largest = 0, first = 0, last = 0;  ///< whether keys are made of the operand; whether the results are written
  u32 alternating = 0;                   ///< every other chunk is sorted backwards, for merging
  Divisor inner, chunks;                 ///< chunks of a line
};

/// A step of a merge of whole lines, between keys that are `stride` apart, at least chunk_keys.
struct TopKMergeParameters {
  u32 pairs = 0, size = 0, stride = 0, line_keys = 0;
};

}  // namespace camshaft::cuda
