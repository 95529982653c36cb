// Convolutions as CPU kernels: channels-last, weights packed at build time.
#pragma once

#include "cpu/tactic.h"

namespace camshaft::cpu {

/// 1-D and 2-D convolution through the indirect matrix product.
extern const CpuTactic conv_tactic;
/// One group a channel: vectorised over channels.
extern const CpuTactic depthwise_tactic;

/// Recovers weights from these tactics' packed forms; undefined when the layout is not one of theirs.
Tensor unpack_conv(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
