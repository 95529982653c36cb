// Determinants of square matrices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// By Gaussian elimination with partial pivoting in f64, in the order of the reference evaluation, whose bits the
/// results have: a matrix that is singular there is singular here.
struct Determinants {
  int64_t count = 0;  ///< of matrices
  int64_t size = 0;   ///< rows, and columns

  size_t workspace_bytes(int threads) const;
  /// `in`: dense matrices of f32 or f64 one behind the other; `out`: one number of that type for each.
  void run(ThreadPool& pool, DType dtype, const void* in, void* out, std::byte* workspace) const;
};

}  // namespace camshaft::cpu
