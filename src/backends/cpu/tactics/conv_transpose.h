// Transposed convolutions as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// Channels-last, weights packed at build time, one product for each phase of the stride.
extern const CpuTactic conv_transpose_tactic;

/// Recovers weights from this tactic's packed form; undefined when the layout is not its own.
Tensor unpack_conv_transpose(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
