// What reductions are given.
#pragma once

#include "backends/cuda/device/axes_parameters.h"

namespace camshaft::cuda {

/// How one is shared out.
struct ReduceShape {
  u32 outputs = 0;    ///< in all
  u32 rows = 0;       ///< of reduce_rows: outputs; of reduce_columns: groups of neighbouring outputs
  u32 length = 0;     ///< chunks to reduce for each of reduce_rows, elements for each of reduce_columns
  u32 per_split = 0;  ///< of the length
  u32 lanes = 1;      ///< of reduce_rows: threads of a row; of reduce_columns: chunks beside each other in a block
  u32 columns = 0;    ///< chunks in a group of neighbours
  Divisor blocks;     ///< of reduce_columns: blocks beside each other
  i64 count = 0;      ///< elements of each result
  f64 part = 0;       ///< 1 / count
};

template <int operands>
struct ReduceParameters {
  ReduceShape shape;
  i64 along[operands] = {};  ///< from one element of a chunk to the next; of reduce_columns also to the next chunk's
  Nest<operands> kept;       ///< from the number of a row to its first element
  Nest<operands> reduced;    ///< from the position along the length to the distance from there
};

/// What is reduced is computed from these.
template <int operands>
struct ReduceSources {
  const void* in[operands] = {};
};

/// What the steps behind a reduction read, along the nest of its outputs.
template <int operands>
struct ReduceBehind {
  Nest<operands> nest;
  const void* in[operands] = {};
};
/// Of steps that read nothing else.
struct ReduceNothingBehind {
  u32 none = 0;
};

}  // namespace camshaft::cuda
