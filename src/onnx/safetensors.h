// Tensors of files in the format safetensors.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/mapped_file.h"
#include "ir/tensor.h"

namespace camshaft::onnx {

/// All tensors of a file, which keep it mapped: 8 bytes with the size of a header in JSON, the header ("name":
/// {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, and "__metadata__"), and the tensors' bytes one
/// after the other without gaps (https://github.com/huggingface/safetensors, format as of 0.4). Tensors whose bytes are
/// not aligned to their type are copied. Throws Error(invalid_model), which names the file and the tensor, for anything
/// else, and Error(unsupported) for a type that Camshaft does not have.
std::map<std::string, Tensor> read_safetensors(const std::shared_ptr<const MappedFile>& file);

}  // namespace camshaft::onnx
