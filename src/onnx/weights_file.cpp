#include "onnx/weights_file.h"

#include <utility>
#include <vector>

#include "base/available_cores.h"
#include "base/mapped_file.h"
#include "base/parallel.h"
#include "onnx/hoist_weights.h"
#include "onnx/model_weights.h"
#include "onnx/npz.h"
#include "onnx/proto_reader.h"
#include "onnx/safetensors.h"
#include "onnx/tensor_data.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

bool has_tensors_alone(const std::string& path) {
  return path.ends_with(".safetensors") || is_npz(path);
}

std::map<std::string, WeightOfFile> read_weights(const std::string& path, const IsWanted& is_wanted) {
  if (!has_tensors_alone(path)) return weights_by_name(read_model(path), is_wanted);
  std::map<std::string, WeightOfFile> weights;
  if (is_npz(path)) {
    for (auto& [name, tensor] : read_arrays(path)) weights.insert_or_assign(name, WeightOfFile{std::move(tensor)});
    return weights;
  }
  for (auto& [name, tensor] : read_safetensors(MappedFile::open(path))) weights[name] = {std::move(tensor), true};
  return weights;
}

std::map<std::string, WeightOfFile> weights_by_name(ModelProto model, const IsWanted& is_wanted) {
  hoist_weights(model);
  TensorReader reader(model);
  std::vector<TensorData> read;
  std::vector<std::string> names;
  for_each_weight(model, [&](const std::string& name, const TensorProto& tensor) {
    if (!is_wanted(name)) return;
    read.push_back(reader.read(tensor, "initializer"));
    names.push_back(name);
  });
  // Tensors stand in a model wherever its names end, most of them at no multiple of their elements: they are copied.
  std::vector<WeightOfFile> made(read.size());
  for_each_parallel(available_cores(), read.size(), [&](size_t i) {
    made[i].tensor = to_tensor(read[i]);
    made[i].is_mapped = made[i].tensor.data() == read[i].bytes.data();
  });
  std::map<std::string, WeightOfFile> weights;
  for (size_t i = 0; i < read.size(); ++i) weights.insert_or_assign(std::move(names[i]), std::move(made[i]));
  return weights;
}

}  // namespace camshaft::onnx
