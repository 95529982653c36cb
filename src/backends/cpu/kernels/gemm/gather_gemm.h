// Rows times the matrices that they choose (ops::GatherMatMul).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Rows are sorted by their matrices, so that each is read once for all rows of a tile. A row's sums are added up in
/// one order whatever is beside it. A row without a matrix costs its zeros.
struct GatherGemm {
  int64_t rows = 0, in = 0, out = 0, matrices = 0;
  DType type = DType::f32;  ///< of the matrices: f32, f16 or bf16

  struct Operands {
    const float* x = nullptr;       ///< [rows, in]
    const void* indices = nullptr;  ///< i64 or i32, [rows]
    const std::byte* w = nullptr;   ///< [matrices, in, out]
  };
  size_t workspace_bytes() const;
  /// y: [rows, out]
  void run(ThreadPool& pool, const Operands& operands, DType index_type, float* y, std::byte* workspace) const;
};

}  // namespace camshaft::cpu
