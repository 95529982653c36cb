// What kernels are given that read or write at positions that are data.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// out[o, k, :] = in[o, indices[k], :]
struct GatherRowsParameters {
  u32 chunks = 0, wide = 0;  ///< chunks of the result; whether indices are i64
  Divisor inner, count;      ///< chunks of a row; indices
  i64 size = 0;              ///< rows of the operand, for each o
  u32 axis = 0;
};

/// out[p] = in[p with its coordinate along an axis replaced by indices[p]]; a scatter the other way round.
struct ElementsParameters {
  u32 chunks = 0, rank = 0, axis = 0, wide = 0;
  Divisor size[8];     ///< of the indices
  i64 stride[8] = {};  ///< of the operand
  i64 limit = 0;       ///< size of the operand's axis
};

/// Slices that `depth` numbers name, in each of some batches of them.
struct SlicesParameters {
  u32 chunks = 0, wide = 0, depth = 0, first_axis = 0;
  Divisor inner, a_batch;  ///< chunks of a slice; indices of a batch
  i64 size[8] = {};        ///< of the axes that are named
  i64 slices = 1;          ///< of a batch
};

}  // namespace camshaft::cuda
