// TensorView, the public form of a tensor, from and to Tensor.
#pragma once

#include "camshaft/tensor.h"
#include "ir/tensor.h"

namespace camshaft {

/// Does not keep the tensor alive.
TensorView view_of(const Tensor& tensor);
/// Throws Error(invalid_argument) when the number of elements of a container or the bytes of a tensor are wrong.
Tensor copy_of(const TensorView& view);

}  // namespace camshaft
