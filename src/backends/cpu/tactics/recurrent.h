// RNN, GRU and LSTM layers with constant weights as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

extern const CpuTactic recurrent_tactic;

/// Recovers weights from recurrent_tactic's packed forms; undefined when the layout is not one of its own.
Tensor unpack_recurrent(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
