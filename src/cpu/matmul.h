// Matrix multiplications as CPU kernels.
#pragma once

#include "cpu/tactic.h"

namespace camshaft::cpu {

/// A constant right-hand side, packed at build time.
extern const CpuTactic gemm_tactic;
/// Any operands: the right-hand side is packed on the fly.
extern const CpuTactic batch_gemm_tactic;

/// Recovers a matrix from gemm_tactic's packed form; undefined when the layout is not one of its own.
Tensor unpack_gemm(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
