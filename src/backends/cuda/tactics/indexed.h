// Parameters of kernels that read or write at positions that are data, as device/gather.cuh has them.
#pragma once

#include "backends/cuda/tactics/divisor.h"
#include "compile/kernel.h"

namespace camshaft::cuda {

/// Positions of which one coordinate is data.
struct Elements {
  uint32_t chunks = 0, rank = 0, axis = 0, wide = 0;
  Divisor size[8];
  int64_t stride[8] = {};
  int64_t limit = 0;
};

/// Slices that several numbers name.
struct Slices {
  uint32_t chunks = 0, wide = 0, depth = 0, first_axis = 0;
  Divisor inner, a_batch;
  int64_t size[8] = {};
  int64_t slices = 1;
};

/// Of x and indices, as gather_elements and scatter_elements have them; at most 8 axes. Throws Error(invalid_argument)
/// naming `what` where the indices are longer than x on another axis.
Elements elements_of(const OperandShape& x, const OperandShape& indices, int64_t axis, const char* what);

/// Slices of x behind `batch_axes` axes that it shares with the indices: all but `chunks` and `inner`, which depend on
/// alignment. At most 8 axes.
struct SliceShape {
  Slices parameter;
  int64_t count = 1;  ///< indices
  int64_t inner = 1;  ///< elements of a slice
};
SliceShape slices_of(const OperandShape& x, const OperandShape& indices, size_t batch_axes);

}  // namespace camshaft::cuda
