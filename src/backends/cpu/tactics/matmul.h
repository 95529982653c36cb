// Matrix multiplications as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// A constant right-hand side, packed at build time.
extern const CpuTactic gemm_tactic;
/// The same of operands that are rounded to bf16, where the operator allows it and the machine multiplies them.
extern const CpuTactic gemm_bf16_tactic;
/// A right-hand side that is no constant matrix: packed in each run.
extern const CpuTactic batch_gemm_tactic;

/// Of f64 and of integers of 32 and 64 bits.
extern const CpuTactic plain_matmul_tactic;

/// Recovers a matrix from the packed form of gemm_tactic, or of gemm_bf16_tactic in bf16; undefined when the layout is
/// of neither.
Tensor unpack_gemm(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
