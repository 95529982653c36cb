#pragma once

#include "ir/tensor.h"

namespace camshaft {

/// A tensor of any floating dtype in f32; f64 is narrowed. Throws Error(internal) for other dtypes.
Tensor widened(const Tensor& tensor);

}  // namespace camshaft
