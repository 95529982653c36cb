// What kernels are given whose results have elements of the operand, or a constant: found along each axis by itself.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

enum class PaddingMode : u32 { constant, reflect, edge, wrap };

/// Axes from the first to the last, which is counted in chunks of V elements.
struct PadParameters {
  u32 chunks = 0, rank = 0;
  PaddingMode mode = PaddingMode::constant;
  Divisor size[8];                     ///< of the result
  i64 before[8] = {}, length[8] = {};  ///< elements of the result before the operand's first, and the operand's
  i64 stride[8] = {};                  ///< of the operand, in elements
};

/// Axes with a table say which of the operand's indices each of theirs takes; -1: none.
struct MappedCopyParameters {
  u32 chunks = 0, rank = 0;
  Divisor size[8];              ///< of the result
  i64 in[8] = {}, out[8] = {};  ///< strides in elements, of the last axis for a chunk
  const i32* table[8] = {};     ///< null: the same index
};

/// An index map: `left` axes of the operand have indices beyond them.
struct IndexMapParameters {
  u32 chunks = 0, rank = 0, left = 0, wraps = 0;
  Divisor size[8];  ///< of the result
  i64 in[8] = {},
      out[8] = {};    ///< strides in elements, of the last axis for a chunk; `in` of axes that go along none of `left`
  u32 along[8] = {};  ///< which of `left`; `left` itself: none
  i64 step[8] = {};
  i64 start[8] = {}, length[8] = {}, stride[8] = {};  ///< of `left`
};

}  // namespace camshaft::cuda
