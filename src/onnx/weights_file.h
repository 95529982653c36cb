// The weights that a file has, by name.
#pragma once

#include <map>
#include <string>

#include "ir/tensor.h"

namespace camshaft::onnx {

/// Whether a file is one of tensors alone, by its name.
bool is_safetensors(const std::string& path);
struct WeightOfFile {
  Tensor tensor;
  bool is_mapped = false;  ///< its bytes are the file's, which may change, and not memory of its own
};
/// The weights of an ONNX model (see for_each_weight()), or all tensors of a file of tensors. Throws Error(io), and
/// what the readers throw.
std::map<std::string, WeightOfFile> read_weights(const std::string& path);

}  // namespace camshaft::onnx
