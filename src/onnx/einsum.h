// Einstein summation as transposes, sums and matrix multiplications.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// Any number of operands; an index twice in one operand takes the diagonal.
Values einsum(ConvertContext& c);

}  // namespace camshaft::onnx
