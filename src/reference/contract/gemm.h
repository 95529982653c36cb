// The blocked matrix product behind the reference evaluation of contractions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace camshaft {
class ThreadPool;
}

namespace camshaft::ops {

/// A batch of products C[m, n] = A[m, k] · B[k, n] whose operands are read and written in runs, so that nothing is
/// converted or unrolled (im2col) in the whole. T is double, or uint32_t or uint64_t for integers (exact modulo their
/// range).
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
  /// Up to eight rows at once, `stride` elements apart in `out`: for those whose columns lie together in memory.
  virtual void load_a_rows(int64_t batch, int64_t row, int64_t rows, int64_t first, int64_t count, T* out,
                           int64_t stride) const {
    for (int64_t r = 0; r < rows; ++r) load_a(batch, row + r, first, count, out + r * stride);
  }
  virtual void load_b_rows(int64_t batch, int64_t row, int64_t rows, int64_t first, int64_t count, T* out,
                           int64_t stride) const {
    for (int64_t r = 0; r < rows; ++r) load_b(batch, row + r, first, count, out + r * stride);
  }
  /// Whether the elements of B's columns lie together: then they are read by load_b_columns() alone.
  virtual bool reads_b_by_columns() const { return false; }
  /// out[c * stride + i] = B[first + i, column + c], c < columns
  virtual void load_b_columns(int64_t /*batch*/, int64_t /*column*/, int64_t /*columns*/, int64_t /*first*/,
                              int64_t /*count*/, T* /*out*/, int64_t /*stride*/) const {}
  /// C[row, first + i] = in[i]; `in` may be overwritten. Called once for each element, from any thread.
  virtual void store(int64_t batch, int64_t row, int64_t first, int64_t count, T* in) const = 0;

  /// For operands that are computed as they are stored, which are then neither copied before they are packed nor
  /// behind the sums: 316 x 316 x 316 of f64 took a third longer. An element's address, how far apart the rows' and
  /// columns' are; null: by the functions above.
  struct Matrix {
    T* data = nullptr;
    int64_t row_stride = 0, column_stride = 0;
  };
  virtual Matrix a_in_memory(int64_t /*batch*/) const { return {}; }
  virtual Matrix b_in_memory(int64_t /*batch*/) const { return {}; }
  virtual Matrix c_in_memory(int64_t /*batch*/) const { return {}; }  ///< with a column_stride of 1
};

/// Solves the batch over the pool's threads. Each element is summed in the order of k by fused multiply-adds, so
/// results are the same bits on every machine, for every number of threads and every kernel. `kernel` counts the inner
/// kernels that this machine runs, the fastest first. (In double, 1024³ runs at 88 GFLOP/s on one Zen core with
/// AVX-512.) `workspace`: gemm_workspace_bytes() at a multiple of 64, or null, and then it is allocated.
template <class T>
void solve(const GemmProblem<T>& problem, ThreadPool& pool, size_t kernel = 0, std::byte* workspace = nullptr);
/// For pools of at most `threads`.
template <class T>
size_t gemm_workspace_bytes(const GemmProblem<T>& problem, int threads, size_t kernel = 0);
size_t gemm_kernel_count();

}  // namespace camshaft::ops
