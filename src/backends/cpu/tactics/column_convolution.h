// Convolutions by columns, transposed ones too, on images with the channels first: chains of one between transposes.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic column_conv_tactic;
extern const CpuTactic column_conv_transpose_tactic;

}  // namespace camshaft::cpu
