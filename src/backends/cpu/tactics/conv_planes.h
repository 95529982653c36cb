// Convolutions between channels first and channels first as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// A convolution over two axes and the transposes before and behind it, weights packed at build time, with neighbouring
/// pixels as the lanes (conv_planes.h). Offered for at most 128 products an element of the result.
extern const CpuTactic plane_conv_tactic;

/// A depthwise one over one axis or two, by blocks of channels that are turned in cache (depthwise_blocks.h).
extern const CpuTactic depthwise_block_tactic;
Tensor unpack_depthwise_blocks(const PackedConstant& packed, DType dtype, const Dims& dims);

/// Recovers weights from this tactic's packed form; undefined when the layout is not its own.
Tensor unpack_plane_conv(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
