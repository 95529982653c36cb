// Convolutions of 8-bit numbers as CPU kernels.
#pragma once

#include "backends/cpu/tactic.h"

namespace camshaft::cpu {

/// ops::IntegerConv, channels-last, with whatever is fused behind it: the indirect product. Weights that are no
/// constants are packed in each run.
extern const CpuTactic integer_conv_tactic;
/// The same of those with one channel a group and one kernel a channel.
extern const CpuTactic integer_depthwise_tactic;

/// The same of those with groups of several channels of which a vector has some.
extern const CpuTactic integer_grouped_tactic;

/// Recover weights from the packed form of the tactic that is named; undefined when the layout is not one of its own.
Tensor unpack_integer_depthwise(const PackedConstant& packed, DType dtype, const Dims& dims);
Tensor unpack_integer_grouped(const PackedConstant& packed, DType dtype, const Dims& dims);

}  // namespace camshaft::cpu
