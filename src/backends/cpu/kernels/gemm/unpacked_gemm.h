// Batched products of few rows, or of small matrices, whose right-hand side is used once: packing it would cost as much
// as the product. Internal to the kernels.
#pragma once

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// Whether B is better read in place: A has at most 4 rows, and B's columns or rows are contiguous; or B has contiguous
/// rows, and L2 holds it for 8 rows, or L1 for many products of at most 32 rows.
bool is_read_unpacked(const BatchGemmArgs& args);
/// batch_gemm for such operands. `workspace`: unpacked_gemm_workspace_bytes.
void unpacked_gemm(const BatchGemmArgs& args, ThreadPool& pool, void* workspace);
int64_t unpacked_gemm_workspace_bytes(const BatchGemmArgs& args);

/// How it is cut: chunks of columns and, where these are few, parts of K (row_product_parts).
struct UnpackedCut {
  int64_t chunk = 0;  ///< columns: whole tiles on every machine
  int64_t chunks = 0, parts = 1;
  int threads = 1;  ///< that are worth waking

  UnpackedCut(const BatchGemmArgs& args, int most);
};

}  // namespace camshaft::cpu
