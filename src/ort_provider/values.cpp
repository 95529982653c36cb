#include "ort_provider/values.h"

#include <algorithm>
#include <memory>

#include "base/mapped_file.h"
#include "ir/tensor.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::ort_provider {

namespace {

using ort::slot;

/// ONNX and ONNX Runtime number element types alike but for the last. 0 for one that is not known here.
int32_t data_type_of(ort::ElementType element) {
  switch (element) {
    case ort::f8e8m0_element:
      return 24;
    case ort::u2_element:
      return 25;
    case ort::i2_element:
      return 26;
    default:
      return element <= ort::f4e2m1_element ? element : 0;
  }
}

onnx::TypeProto tensor_type(const Host& host, const OrtTensorTypeAndShapeInfo* info) {
  onnx::TypeProto type;
  type.kind = onnx::TypeProto::Kind::tensor;
  type.elem_type = data_type_of(host.get<ort::ElementType>(slot("GetTensorElementType"), info));
  if (!host.call<bool>(slot("TensorTypeAndShape_HasShape"), info)) return type;
  const auto rank = host.get<size_t>(slot("GetDimensionsCount"), info);
  std::vector<int64_t> dims(rank);
  std::vector<const char*> names(rank);
  host.ask(slot("GetDimensions"), info, dims.data(), rank);
  host.ask(slot("GetSymbolicDimensions"), info, names.data(), rank);
  type.shape.emplace();
  for (size_t i = 0; i < rank; ++i) {
    onnx::DimensionProto& dim = type.shape->emplace_back();
    if (dims[i] >= 0) {
      dim.value = dims[i];
    } else if (names[i]) {
      dim.param = names[i];
    }
  }
  return type;
}

/// The type of what a container holds, which is the caller's to free.
std::optional<onnx::TypeProto> container_of(const Host& host, onnx::TypeProto::Kind kind, OrtTypeInfo* held) {
  std::optional<onnx::TypeProto> element = type_of(host, held);
  host.call<void>(slot("ReleaseTypeInfo"), held);
  if (!element) return std::nullopt;
  onnx::TypeProto type;
  type.kind = kind;
  type.element.push_back(std::move(*element));
  return type;
}

/// What the host gives for a value, freed at the end.
class ShapeInfo {
 public:
  ShapeInfo(const Host& host, const OrtValue* value)
      : host_(host), info_(host.get<OrtTensorTypeAndShapeInfo*>(slot("GetTensorTypeAndShape"), value)) {}
  ~ShapeInfo() { host_.call<void>(slot("ReleaseTensorTypeAndShapeInfo"), info_); }
  ShapeInfo(const ShapeInfo&) = delete;
  ShapeInfo& operator=(const ShapeInfo&) = delete;
  const OrtTensorTypeAndShapeInfo* get() const { return info_; }

 private:
  const Host& host_;
  OrtTensorTypeAndShapeInfo* info_;
};

}  // namespace

std::optional<onnx::TypeProto> type_of(const Host& host, const OrtTypeInfo* info) {
  if (!info) return std::nullopt;
  switch (host.get<ValueKind>(slot("GetOnnxTypeFromTypeInfo"), info)) {
    case tensor_kind:
      return tensor_type(host, host.get<const OrtTensorTypeAndShapeInfo*>(slot("CastTypeInfoToTensorInfo"), info));
    case sequence_kind: {
      const auto* sequence = host.get<const void*>(slot("CastTypeInfoToSequenceTypeInfo"), info);
      return container_of(host, onnx::TypeProto::Kind::sequence,
                          host.get<OrtTypeInfo*>(slot("GetSequenceElementType"), sequence));
    }
    case optional_kind: {
      const auto* optional = host.get<const void*>(slot("CastTypeInfoToOptionalTypeInfo"), info);
      return container_of(host, onnx::TypeProto::Kind::optional,
                          host.get<OrtTypeInfo*>(slot("GetOptionalContainedTypeInfo"), optional));
    }
    case map_kind: {
      const auto* map = host.get<const void*>(slot("CastTypeInfoToMapTypeInfo"), info);
      auto type = container_of(host, onnx::TypeProto::Kind::map, host.get<OrtTypeInfo*>(slot("GetMapValueType"), map));
      if (type) type->key_type = data_type_of(host.get<ort::ElementType>(slot("GetMapKeyType"), map));
      return type;
    }
    default:
      return std::nullopt;
  }
}

TensorFacts facts_of(const Host& host, const OrtValue* value) {
  const ShapeInfo info(host, value);
  TensorFacts facts;
  facts.data_type = data_type_of(host.get<ort::ElementType>(slot("GetTensorElementType"), info.get()));
  facts.dims.resize(host.get<size_t>(slot("GetDimensionsCount"), info.get()));
  host.ask(slot("GetDimensions"), info.get(), facts.dims.data(), facts.dims.size());
  return facts;
}

DeviceId device_of(const Host& host, const OrtMemoryDevice* device) {
  if (!device || host.ep().place_of(device) != gpu_memory) return DeviceId::host;
  return DeviceId::gpu(static_cast<int>(host.ep().number_of(device)));
}

DeviceId device_of(const Host& host, const OrtValue* value) {
  return device_of(host, host.ep().device_of_value(value));
}

void read_dims(const Host& host, const OrtValue* value, std::vector<int64_t>& dims) {
  const ShapeInfo info(host, value);
  dims.resize(host.get<size_t>(slot("GetDimensionsCount"), info.get()));
  host.ask(slot("GetDimensions"), info.get(), dims.data(), dims.size());
}

std::vector<std::string> read_texts(const Host& host, const OrtValue* value) {
  std::vector<int64_t> dims;
  read_dims(host, value, dims);
  const auto count = static_cast<size_t>(element_count(dims));
  std::string all(host.get<size_t>(slot("GetStringTensorDataLength"), value), 0);
  std::vector<size_t> begins(count);
  if (count > 0)
    host.ask(slot("GetStringTensorContent"), value, static_cast<void*>(all.data()), all.size(), begins.data(), count);
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i)
    texts.push_back(all.substr(begins[i], (i + 1 < count ? begins[i + 1] : all.size()) - begins[i]));
  return texts;
}

void write_texts(const Host& host, OrtValue* value, const std::string* texts, size_t count) {
  // FillStringTensor takes texts that end at their first 0.
  for (size_t i = 0; i < count; ++i) {
    auto* room = host.get<char*>(slot("GetResizedStringTensorElementBuffer"), value, i, texts[i].size());
    std::copy(texts[i].begin(), texts[i].end(), room);
  }
}

onnx::TensorProto tensor_proto(const Host& host, const std::string& name, const OrtValue* value) {
  onnx::TensorProto tensor;
  TensorFacts facts = facts_of(host, value);
  tensor.name = name;
  tensor.dims = std::move(facts.dims);
  tensor.data_type = facts.data_type;
  if (tensor.data_type == string_data_type) {
    tensor.string_data = read_texts(host, value);
    return tensor;
  }
  const auto* data = host.get<const void*>(slot("GetTensorData"), value);
  tensor.raw_data = {static_cast<const std::byte*>(data), host.get<size_t>(slot("GetTensorSizeInBytes"), value)};
  return tensor;
}

void own_bytes(onnx::TensorProto& tensor) {
  if (tensor.owner || tensor.raw_data.empty()) return;
  auto copy = MappedFile::from_bytes(tensor.raw_data, tensor.name);
  tensor.raw_data = copy->bytes();
  tensor.owner = std::move(copy);
}

}  // namespace camshaft::ort_provider
