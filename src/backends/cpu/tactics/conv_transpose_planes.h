// Transposed convolutions of few output channels as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// Channels-last, weights packed at build time, with neighbouring pixels as the lanes (conv_transpose_planes.h).
extern const CpuTactic plane_conv_transpose_tactic;

/// Recovers weights from this tactic's packed form; undefined when the layout is not its own.
Tensor unpack_plane_conv_transpose(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
