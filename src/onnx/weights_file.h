// The weights of a model, or of a file of tensors, by name.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ir/tensor.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

/// Whether a file is one of tensors alone (.safetensors, .npz), by its name.
bool has_tensors_alone(const std::string& path);
struct WeightOfFile {
  Tensor tensor;
  bool is_mapped = false;  ///< its bytes are the file's, which may change, and not memory of its own
};
using IsWanted = std::function<bool(const std::string& name)>;
/// The weights of a model by the names that a refit knows them by (see hoist_weights() and for_each_weight()); others
/// than those that are wanted are not read. Throws what the readers throw.
std::map<std::string, WeightOfFile> weights_by_name(ModelProto model, const IsWanted& is_wanted);
/// Those of an ONNX file, or all tensors of a file of tensors. Throws Error(io), too.
std::map<std::string, WeightOfFile> read_weights(const std::string& path, const IsWanted& is_wanted);

}  // namespace camshaft::onnx
