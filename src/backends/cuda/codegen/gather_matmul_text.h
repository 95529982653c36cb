// The text of the kernels of products whose rows choose their matrix.
#pragma once

#include <string>

#include "base/dtype.h"

namespace camshaft::cuda {

/// Kernels gather_matmul_one and gather_matmul_chunks, the second for columns that are a multiple of
/// gather_matmul_chunk, in memory that is aligned to 16 bytes; and gather_matmul_rows, the same for many rows, of which
/// a block takes gather_matmul_rows. Types: f32, f16 or bf16.
std::string gather_matmul_text(DType rows, DType matrices);

inline constexpr int gather_matmul_chunk = 8, gather_matmul_rows = 4;
inline constexpr unsigned gather_matmul_threads = 256;

}  // namespace camshaft::cuda
