// Counting tensors, for converters that need positions.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// The i64 vector 0, 1, … count-1: a constant when the count is a number.
ValueId iota(ConvertContext& c, Dim count);

}  // namespace camshaft::onnx
