// Layer and RMS norms of rows that lie in memory as f16 or bf16.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/reduce/normalize.h"
#include "base/dtype.h"
#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Some rows at a time become f32 in cache, are normalised there and written as the result's type. 10^6 halves in rows
/// of 1000, as three kernels with f32 in memory between them, took 543 us (RMS) and 558, and take 236 each.
struct NarrowRows {
  static constexpr int64_t longest = 16 * 1024;  ///< row that the threads' stacks have room for

  DType from = DType::f16, to = DType::f16;  ///< f32, f16 or bf16

  /// Of the norm's `rows` of at most `longest` elements; scale and bias as it has them. y is not x.
  void run(const LayerNorm& norm, ThreadPool& pool, const void* x, const float* scale, const float* bias,
           void* y) const;
  void run(const RmsNorm& norm, ThreadPool& pool, const void* x, const float* scale, void* y) const;
};

}  // namespace camshaft::cpu
