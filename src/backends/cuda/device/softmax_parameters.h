// What softmax along an axis that is not the last is given.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Along an axis whose elements are `inner` apart, of which so many lie beside each other: chunks of V of them are a
/// column. A block takes `lanes` columns, and its other threads go down the axis.
struct SoftmaxColumnsParameters {
  u32 columns = 0, length = 0, lanes = 1;
  Divisor inner;  ///< chunks
};

}  // namespace camshaft::cuda
