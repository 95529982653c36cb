// Convolutions of many narrow groups as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// Groups that share vectors (kernels/conv/grouped_conv.h), over one to three axes, of constant or other weights.
extern const CpuTactic grouped_conv_tactic;

/// Back from the layout that the tactic packs; an undefined tensor for other layouts. Throws Error(corrupt_engine) if
/// the layout does not fit `dims`.
Tensor unpack_grouped_conv(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
