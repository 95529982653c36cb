// The kernels of operators that choose elements as CUDA C++ text.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// select_chunk_any, merge_far_any and merge_near_any (see device/top_k.cuh), of a type of at most 32 bits.
std::string top_k_text(DType dtype);

}  // namespace camshaft::cuda
