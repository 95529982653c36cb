// Kernels of rotary position embeddings.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// The kernel "rotate_any" of device/rotary_embedding.cuh for rows of one type and tables of another: f32, f16 or bf16.
std::string rotary_text(DType rows, DType tables);

}  // namespace camshaft::cuda
