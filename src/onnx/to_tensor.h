// From the file's bytes to the graph's tensors.
#pragma once

#include "ir/tensor.h"
#include "onnx/tensor_data.h"

namespace camshaft::onnx {

/// Shares the bytes where they are aligned for their element type, and copies them where not: a protobuf field starts
/// at any byte, while Tensor's readers use pointers to elements.
Tensor to_tensor(const TensorData& data);

}  // namespace camshaft::onnx
