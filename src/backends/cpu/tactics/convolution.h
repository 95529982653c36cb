// Convolutions as CPU kernels: channels-last, weights packed at build time (in each run where they are no constants).
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// 1-D to 3-D convolution through the indirect matrix product.
extern const CpuTactic conv_tactic;
/// The same of an image and constant weights that are rounded to bf16, where the operator allows it and the machine
/// multiplies them.
extern const CpuTactic conv_bf16_tactic;
/// 3x3 stride-1 convolution by Winograd's F(4x4, 3x3) (rounds more) and F(2x2, 3x3): variants `tile` 4 and 2.
extern const CpuTactic winograd_tactic;
/// One group a channel: vectorised over channels.
extern const CpuTactic depthwise_tactic;

}  // namespace camshaft::cpu
