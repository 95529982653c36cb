#include "onnx/weights_file.h"

#include "base/mapped_file.h"
#include "onnx/proto_reader.h"
#include "onnx/safetensors.h"
#include "onnx/tensor_data.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

bool is_safetensors(const std::string& path) {
  return path.ends_with(".safetensors");
}

std::map<std::string, Tensor> read_weights(const std::string& path) {
  if (is_safetensors(path)) return read_safetensors(MappedFile::open(path));
  const ModelProto model = read_model(path);
  TensorReader reader(model);
  std::map<std::string, Tensor> tensors;
  for (const TensorProto& tensor : model.graph.initializers)
    tensors.insert_or_assign(tensor.name, to_tensor(reader.read(tensor, "initializer")));
  return tensors;
}

}  // namespace camshaft::onnx
