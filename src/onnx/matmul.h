// NumPy's matmul, for the converters of several groups.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// The node's output: a·b with ONNX's rules for 1-D operands.
ValueId matmul(ConvertContext& c, ValueId a, ValueId b);

/// The same as an inner value of the node, by `product`: operands a and b, and what else it takes.
ValueId inner_matmul(ConvertContext& c, Op product, Values operands);

}  // namespace camshaft::onnx
