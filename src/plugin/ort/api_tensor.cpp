// Tensors, and what is said of their types and shapes.
#include <fmt/format.h>

#include <algorithm>

#include "plugin/ort/api.h"

namespace camshaft::ort {

namespace {

constexpr int32_t onnx_tensor = 1;  // of ONNXType

TensorInfo info_of_value(const Value& value) {
  return {element_type(value.dtype), {value.dims.begin(), value.dims.end()}};
}

// ---- Values ----

Status* is_tensor(const Value*, int* out) {
  *out = 1;
  return nullptr;
}
Status* has_value(const Value* value, int* out) {
  *out = value ? 1 : 0;
  return nullptr;
}
Status* type_of_value(const Value*, int32_t* out) {
  *out = onnx_tensor;
  return nullptr;
}
Status* data_of_value(Value* value, void** out) {
  *out = value->data;
  return nullptr;
}
Status* constant_data_of_value(const Value* value, const void** out) {
  *out = value->data;
  return nullptr;
}
Status* bytes_of_value(const Value* value, size_t* out) {
  *out = value->bytes();
  return nullptr;
}
Status* element_at(Value* value, const int64_t* location, size_t count, void** out) {
  return guarded([&]() -> Status* {
    if (count != value->dims.size() || is_packed(value->dtype) || value->dtype == DType::string)
      return failure(invalid_argument, "an element has one place along each axis, and a byte at least");
    int64_t index = 0;
    for (size_t axis = 0; axis < count; ++axis) {
      if (location[axis] < 0 || location[axis] >= value->dims[axis])
        return failure(invalid_argument, fmt::format("there is no place {} along axis {}", location[axis], axis));
      index = index * value->dims[axis] + location[axis];
    }
    *out = value->data + byte_size(value->dtype, index);
    return nullptr;
  });
}

Status* make_value(void* data, const int64_t* shape, size_t rank, ElementType type, size_t room, Value** out) {
  return guarded([&]() -> Status* {
    auto value = std::make_unique<Value>(Value{dtype_of(type, "a tensor"), Dims(shape, shape + rank)});
    if (std::any_of(value->dims.begin(), value->dims.end(), [](int64_t d) { return d < 0; }))
      return failure(invalid_argument, "a tensor has a negative size");
    if (value->dtype == DType::string) return failure(not_implemented, "there are no tensors of strings here");
    if (!data) {
      value->memory = std::make_shared<std::byte[]>(value->bytes());
      value->data = value->memory.get();
    } else if (room < value->bytes()) {
      return failure(invalid_argument, fmt::format("a tensor takes {} bytes and gets {}", value->bytes(), room));
    } else {
      value->data = static_cast<std::byte*>(data);
    }
    *out = value.release();
    return nullptr;
  });
}
Status* create_tensor(Allocator*, const int64_t* shape, size_t rank, ElementType type, Value** out) {
  return make_value(nullptr, shape, rank, type, 0, out);
}
Status* create_tensor_over(const MemoryInfo*, void* data, size_t bytes, const int64_t* shape, size_t rank,
                           ElementType type, Value** out) {
  static std::byte nothing;
  return make_value(data ? data : &nothing, shape, rank, type, bytes, out);
}
void release_value(Value* value) {
  delete value;
}

// ---- Types and shapes ----

Status* create_info(TensorInfo** out) {
  *out = new TensorInfo;
  return nullptr;
}
Status* info_from_value(const Value* value, TensorInfo** out) {
  return guarded([&]() -> Status* {
    *out = new TensorInfo(info_of_value(*value));
    return nullptr;
  });
}
Status* type_from_value(const Value* value, TypeInfo** out) {
  return guarded([&]() -> Status* {
    *out = new TypeInfo{info_of_value(*value)};
    return nullptr;
  });
}
Status* reference_from_value(const Value* value, ElementType* type, const int64_t** dims, size_t* rank) {
  *type = element_type(value->dtype);
  *dims = value->dims.data();
  *rank = value->dims.size();
  return nullptr;
}
Status* set_element_type(TensorInfo* info, ElementType type) {
  info->type = type;
  return nullptr;
}
Status* set_dims(TensorInfo* info, const int64_t* dims, size_t count) {
  return guarded([&]() -> Status* {
    info->dims.assign(dims, dims + count);
    info->symbols.assign(count, "");
    info->has_shape = true;
    return nullptr;
  });
}
Status* set_symbols(TensorInfo* info, const char* symbols[], size_t count) {
  return guarded([&]() -> Status* {
    info->dims.resize(count, -1);
    info->symbols.resize(count);
    for (size_t i = 0; i < count; ++i) info->symbols[i] = symbols[i] ? symbols[i] : "";
    return nullptr;
  });
}
Status* get_element_type(const TensorInfo* info, ElementType* out) {
  *out = info->type;
  return nullptr;
}
Status* get_rank(const TensorInfo* info, size_t* out) {
  *out = info->dims.size();
  return nullptr;
}
Status* get_dims(const TensorInfo* info, int64_t* out, size_t count) {
  std::copy_n(info->dims.begin(), std::min(count, info->dims.size()), out);
  return nullptr;
}
Status* get_symbols(const TensorInfo* info, const char* out[], size_t count) {
  for (size_t i = 0; i < std::min(count, info->symbols.size()); ++i) out[i] = info->symbols[i].c_str();
  return nullptr;
}
Status* get_element_count(const TensorInfo* info, size_t* out) {
  size_t count = 1;
  for (const int64_t d : info->dims) {
    if (d < 0) return failure(invalid_argument, "the number of elements is not known: a size is open");
    count *= static_cast<size_t>(d);
  }
  *out = count;
  return nullptr;
}
bool has_shape(const TensorInfo* info) {
  return info->has_shape;
}
void release_info(TensorInfo* info) {
  delete info;
}
Status* info_from_type(const TypeInfo* type, const TensorInfo** out) {
  *out = &type->tensor;
  return nullptr;
}
Status* kind_of_type(const TypeInfo*, int32_t* out) {
  *out = onnx_tensor;
  return nullptr;
}
void release_type(TypeInfo* type) {
  delete type;
}

}  // namespace

void add_tensor_functions(Api& t) {
  put(t, slot("IsTensor"), is_tensor);
  put(t, slot("HasValue"), has_value);
  put(t, slot("GetValueType"), type_of_value);
  put(t, slot("GetTensorMutableData"), data_of_value);
  put(t, slot("GetTensorData"), constant_data_of_value);
  put(t, slot("GetTensorSizeInBytes"), bytes_of_value);
  put(t, slot("TensorAt"), element_at);
  put(t, slot("CreateTensorAsOrtValue"), create_tensor);
  put(t, slot("CreateTensorWithDataAsOrtValue"), create_tensor_over);
  put(t, slot("ReleaseValue"), release_value);
  put(t, slot("CreateTensorTypeAndShapeInfo"), create_info);
  put(t, slot("GetTensorTypeAndShape"), info_from_value);
  put(t, slot("GetTypeInfo"), type_from_value);
  put(t, slot("GetTensorElementTypeAndShapeDataReference"), reference_from_value);
  put(t, slot("SetTensorElementType"), set_element_type);
  put(t, slot("SetDimensions"), set_dims);
  put(t, slot("SetSymbolicDimensions"), set_symbols);
  put(t, slot("GetTensorElementType"), get_element_type);
  put(t, slot("GetDimensionsCount"), get_rank);
  put(t, slot("GetDimensions"), get_dims);
  put(t, slot("GetSymbolicDimensions"), get_symbols);
  put(t, slot("GetTensorShapeElementCount"), get_element_count);
  put(t, slot("TensorTypeAndShape_HasShape"), has_shape);
  put(t, slot("ReleaseTensorTypeAndShapeInfo"), release_info);
  put(t, slot("CastTypeInfoToTensorInfo"), info_from_type);
  put(t, slot("GetOnnxTypeFromTypeInfo"), kind_of_type);
  put(t, slot("ReleaseTypeInfo"), release_type);
}

}  // namespace camshaft::ort
