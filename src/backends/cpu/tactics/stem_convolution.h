// Convolutions of images with few channels, and of such images as they come, channels first.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// kernels/conv/stem_conv.h. Takes a channels-last convolution, or the chain of a transpose to channels-last and one,
/// with or without the maximum of windows behind it.
extern const CpuTactic stem_conv_tactic;

}  // namespace camshaft::cpu
