// A product on all threads, and the adding up of sums that several of them hold parts of. Internal to the kernels.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/gemm/gemm_core.h"

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

/// Sums of the parts of K: element (row, column) of part i is at data[(i * m + row) * n + column].
struct PartialSums {
  const float* data = nullptr;
  int64_t parts = 0;
};

/// C = epilogue(the parts' sums, added in order), on the threads that are worth waking. Of `problem` it takes the
/// sizes, C, the epilogue and what the callback sees; C must have its rows one after the other.
void finish_sums(const CoreProblem& problem, const PartialSums& sums, ThreadPool& pool);

/// Bytes that run_product needs for sums, for `threads` threads and fewer.
int64_t product_sums_bytes(int64_t m, int64_t n, int64_t taps, int64_t depth, int threads);
/// The product, cut for the threads that are worth waking. `scratch`: core_workspace_bytes for each thread of the pool;
/// `sums`: product_sums_bytes.
void run_product(const CoreProblem& problem, ThreadPool& pool, char* scratch, float* sums);

}  // namespace camshaft::cpu
