// C[m,n] = epilogue(sum_k A[m,k] * (codes[k,n] - zero) * scale) for f32 rows and weights of few bits
// (narrow_weights.h).
//
// A few rows take as long as reading the weights does: codes become floats in registers, a block's sums are taken
// first and multiplied by its scale then. More rows go through the f32 product (gemm_core.h), for which each thread
// makes one panel of floats at a time, in its cache. Rows that may be rounded to bytes are multiplied as such, few and
// many (narrow_rounded.h).
#pragma once

#include "backends/cpu/kernels/gemm/narrow_weights.h"

namespace camshaft::cpu {

/// Zero points, as codes are counted: of all weights, or of each block and column, packed as parameters() says.
struct NarrowZeros {
  float all = 0;                   ///< added to the floats of blocks, too
  const uint8_t* bytes = nullptr;  ///< in place of it
  const float* floats = nullptr;
};

/// Element (m, k) of A is a[m * lda + k].
struct NarrowGemm {
  int64_t m = 0;
  const float* a = nullptr;
  int64_t lda = 0;
  bool rounded = false;  ///< A counts as rounded by blocks of kRoundedBlock; blocks of weights are of whole 16 elements
  const NarrowWeights* weights = nullptr;
  const std::byte* packed = nullptr;      ///< from pack_narrow()
  const float* scales = nullptr;          ///< from pack_b() with parameters() …
  const uint16_t* half_scales = nullptr;  ///< … or from pack_halves(), of f16
  NarrowZeros zeros;
  float* c = nullptr;  ///< must not overlap A
  int64_t ldc = 0;
  Epilogue epilogue;
};

/// Bytes of scratch memory for `threads` threads and fewer; 64-byte aligned.
int64_t narrow_gemm_workspace_bytes(const NarrowWeights& weights, int64_t m, int threads, bool rounded);
/// Runs on the threads of the pool that are worth waking. Results do not depend on how many there are.
void narrow_gemm(const NarrowGemm& args, ThreadPool& pool, void* workspace);

}  // namespace camshaft::cpu
