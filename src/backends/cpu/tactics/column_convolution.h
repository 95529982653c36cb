// Convolutions by columns, transposed ones too, on images with the channels first: chains of one between transposes.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic column_conv_tactic;
extern const CpuTactic column_conv_transpose_tactic;
extern const CpuTactic kn2row_conv_tactic;

/// Undefined unless the layout is that of conv_kn2row.
Tensor unpack_kn2row(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
