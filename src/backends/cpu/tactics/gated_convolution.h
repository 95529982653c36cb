// The tactic "gated" for a multiplication by one number a channel and the 1x1 convolution behind it.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// Chains of a pointwise multiplication of an image with [n, 1, 1, c] and the convolution that alone reads its result
/// (squeeze and excite), as passes/chain_convolutions.h makes them. The image is not written again: the weights are
/// multiplied where they are fewer, else the product multiplies its rows as it copies them.
extern const CpuTactic gated_conv_tactic;

}  // namespace camshaft::cpu
