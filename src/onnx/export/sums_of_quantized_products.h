// Biases of quantised products, as ONNX Runtime computes them fast.
#pragma once

#include "onnx/proto.h"

namespace camshaft::onnx {

/// Makes a Sum of each Add that reads a MatMul of two DequantizeLinear. ONNX Runtime joins a MatMul and an Add into
/// a Gemm before it looks for integer products, and then finds none: a product of 1024x768 and 768x768 takes it
/// 17.7 ms in place of 3.7, where 11.6 are those of f32. A Sum of two is the same operator under another name.
void write_sums_of_quantized_products(GraphProto& graph);

}  // namespace camshaft::onnx
