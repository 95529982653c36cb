// The blocked matrix product behind the reference evaluation of contractions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft {
class ThreadPool;
}

namespace camshaft::ops {

/// A batch of products C[m, n] = A[m, k] · B[k, n] whose operands are read and written in runs, so that nothing is
/// converted or unrolled (im2col) in the whole. T is double, or uint64_t for integers (exact modulo their range).
template <class T>
class GemmProblem {
 public:
  int64_t batches = 1, m = 0, n = 0, k = 0;
  bool exact_products = false;  ///< elements were f32 or narrower: their products are exact in double

  virtual ~GemmProblem() = default;
  /// out[i] = A[row, first + i]
  virtual void load_a(int64_t batch, int64_t row, int64_t first, int64_t count, T* out) const = 0;
  /// out[i] = B[row, first + i]
  virtual void load_b(int64_t batch, int64_t row, int64_t first, int64_t count, T* out) const = 0;
  /// C[row, first + i] = in[i]; `in` may be overwritten. Called once for each element, from any thread.
  virtual void store(int64_t batch, int64_t row, int64_t first, int64_t count, T* in) const = 0;
};

/// Solves the batch over the pool's threads. Each element is summed in the order of k by fused multiply-adds, so
/// results are the same bits on every machine, for every number of threads and every kernel. `kernel` counts the inner
/// kernels that this machine runs, the fastest first. (In double, 1024³ runs at 88 GFLOP/s on one Zen core with
/// AVX-512.)
template <class T>
void solve(const GemmProblem<T>& problem, ThreadPool& pool, size_t kernel = 0);
size_t gemm_kernel_count();

}  // namespace camshaft::ops
