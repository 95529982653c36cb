// Strides and sizes of dense tensors, which are in row-major order.
#pragma once

#include "ir/tensor.h"

namespace camshaft::ops {

/// Row-major strides in elements.
Dims row_major_strides(const Dims& dims);
/// Product of dims[begin, end).
int64_t product(const Dims& dims, size_t begin, size_t end);

}  // namespace camshaft::ops
