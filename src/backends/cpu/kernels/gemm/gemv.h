// One row times a packed matrix: bound by how fast the matrix streams from memory. Internal to the kernels.
#pragma once

#include "backends/cpu/kernels/gemm/gemm.h"

namespace camshaft::cpu {

/// The columns of panels [p0, p1) of a product with args.m == 1.
void gemv(const GemmArgs& args, int64_t p0, int64_t p1);

}  // namespace camshaft::cpu
