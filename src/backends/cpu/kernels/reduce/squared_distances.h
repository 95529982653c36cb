// Sums of squared differences of all pairs of rows of two matrices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/pointwise/pointwise.h"
#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// out[i][j] = sum over k of (a[i][k] - b[j][k])^2, of f32 or f64; all three are dense.
///
/// By differences: |a|^2 + |b|^2 - 2ab would lose the digits of points that are close to each other. A tile of rows of
/// a and vectors of rows of b stays in registers, two instructions an element. Sums of f32 run over 1024 elements and
/// are added in double. Their order depends on nothing but `length`.
struct SquaredDistances {
  int64_t rows = 0;     ///< of a
  int64_t columns = 0;  ///< rows of b
  int64_t length = 0;   ///< of each row

  /// For b, packed into panels.
  size_t workspace_bytes(DType dtype) const;

  /// `behind`, where not null: applied to the result in place while it is in cache, with `behind_inputs`.
  void run(ThreadPool& pool, DType dtype, const void* a, const void* b, void* out, std::byte* workspace,
           const Pointwise* behind, const void* const* behind_inputs) const;

  /// Few rows of `a` do not pay for packing b.
  bool is_worth_it() const { return rows >= 8 && columns >= 8; }
};

}  // namespace camshaft::cpu
