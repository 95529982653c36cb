// Parameters of kernels that read or write at positions that are data, as device/gather.cuh has them.
#pragma once

#include "backends/cuda/device/gather_parameters.h"
#include "compile/kernel.h"

namespace camshaft::cuda {

/// Of x and indices, as gather_elements and scatter_elements have them; at most 8 axes. Throws Error(invalid_argument)
/// naming `what` where the indices are longer than x on another axis.
ElementsParameters elements_of(const OperandShape& x, const OperandShape& indices, int64_t axis, const char* what);

/// Slices of x behind `batch_axes` axes that it shares with the indices: all but `chunks` and `inner`, which depend on
/// alignment. At most 8 axes.
struct SliceShape {
  SlicesParameters parameter;
  int64_t count = 1;  ///< indices
  int64_t inner = 1;  ///< elements of a slice
};
SliceShape slices_of(const OperandShape& x, const OperandShape& indices, size_t batch_axes);

}  // namespace camshaft::cuda
