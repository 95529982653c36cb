// How resizing mixes the elements of an axis.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/ops/resize.h"

namespace camshaft::ops {

/// For one axis of a resize: which source elements each output element mixes, and by how much. Shared by the reference
/// and the kernels. `taps` per output element; an index of -1 stands for the extrapolation value.
struct ResizeAxis {
  int64_t taps = 1;
  std::vector<int64_t> indices;  ///< [output size][taps]
  std::vector<double> weights;   ///< [output size][taps]
};
ResizeAxis resize_axis(const Resize& op, size_t i, int64_t input_size, int64_t output_size);

}  // namespace camshaft::ops
