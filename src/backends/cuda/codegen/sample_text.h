// The kernels of operators that sample images, or put them together from windows, as CUDA C++ text.
#pragma once

#include <string>

#include "base/dtype.h"
#include "ir/ops/sample.h"

namespace camshaft::cuda {

/// grid_sample_any for images of `axes` axes, 1 to 3 (see device/sample.cuh).
std::string grid_sample_text(const ops::GridSample& op, int axes, DType dtype, DType grid_dtype);
/// col2im_any (see device/col2im.cuh).
std::string col2im_text(DType dtype);

}  // namespace camshaft::cuda
