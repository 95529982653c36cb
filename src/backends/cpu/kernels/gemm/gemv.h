// One row times a packed matrix: bound by how fast the matrix streams from memory. Internal to the kernels.
#pragma once

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft::cpu {

/// Panels that are read side by side: memory gives more to several streams than to one.
inline constexpr int gemv_streams = 4;

/// The columns of panels [p0, p1) of a product with args.m == 1.
void gemv(const GemmArgs& args, int64_t p0, int64_t p1);
/// Their sums over k in [k0, k1), without the epilogue, to sums[column].
void gemv_part(const GemmArgs& args, int64_t k0, int64_t k1, int64_t p0, int64_t p1, float* sums);

}  // namespace camshaft::cpu
