// Batched products of few rows with a matrix that is used once: packing it would cost more than the product. Internal
// to the kernels.
#pragma once

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// Whether B is better read in place: A has at most 4 rows, and B's columns or rows are contiguous.
bool is_read_unpacked(const BatchGemmArgs& args);
/// batch_gemm for such operands; needs no workspace.
void unpacked_gemm(const BatchGemmArgs& args, ThreadPool& pool);

}  // namespace camshaft::cpu
