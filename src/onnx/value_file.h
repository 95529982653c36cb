// Values in files of their own: how the standard's tests keep inputs and expected outputs.
#pragma once

#include <filesystem>

#include "ir/tensor.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

/// Reads a serialized TensorProto, SequenceProto or OptionalProto; `type` says which (Kind::none means a tensor).
/// Throws Error(io) when the file cannot be read, Error(invalid_model) when it is damaged or not of that type,
/// Error(unsupported) for maps, sparse tensors and element types that DType lacks.
Tensor read_value(const std::filesystem::path& file, const TypeProto& type);

}  // namespace camshaft::onnx
