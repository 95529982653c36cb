// Types and tensors of ONNX Runtime's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/device_id.h"
#include "base/dtype.h"
#include "onnx/proto.h"
#include "ort_provider/host.h"

namespace camshaft::ort_provider {

/// ONNX's number for strings.
constexpr int32_t string_data_type = 8;

/// Nothing where the type is not known, or is one that ONNX does not have.
std::optional<onnx::TypeProto> type_of(const Host& host, const OrtTypeInfo* info);

struct TensorFacts {
  int32_t data_type = 0;  ///< TensorProto.DataType
  std::vector<int64_t> dims;
};
/// Throws Error for what is no tensor.
TensorFacts facts_of(const Host& host, const OrtValue* value);
/// Where a tensor's memory is: the host, or a GPU.
DeviceId device_of(const Host& host, const OrtValue* value);
DeviceId device_of(const Host& host, const OrtMemoryDevice* device);
/// The sizes alone, into a vector that keeps its memory.
void read_dims(const Host& host, const OrtValue* value, std::vector<int64_t>& dims);
std::vector<std::string> read_texts(const Host& host, const OrtValue* value);
void write_texts(const Host& host, OrtValue* value, const std::string* texts, size_t count);

/// A tensor in the host's memory as a TensorProto, whose bytes are not copied.
onnx::TensorProto tensor_proto(const Host& host, const std::string& name, const OrtValue* value);
/// Gives it bytes of its own.
void own_bytes(onnx::TensorProto& tensor);

}  // namespace camshaft::ort_provider
