#include "server/core/data_type.h"

#include <array>
#include <limits>
#include <string>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

struct TypeName {
  DType dtype;
  std::string_view protocol;
};

constexpr std::array<TypeName, 14> type_names = {{{DType::boolean, "BOOL"},
                                                  {DType::u8, "UINT8"},
                                                  {DType::u16, "UINT16"},
                                                  {DType::u32, "UINT32"},
                                                  {DType::u64, "UINT64"},
                                                  {DType::i8, "INT8"},
                                                  {DType::i16, "INT16"},
                                                  {DType::i32, "INT32"},
                                                  {DType::i64, "INT64"},
                                                  {DType::f16, "FP16"},
                                                  {DType::f32, "FP32"},
                                                  {DType::f64, "FP64"},
                                                  {DType::bf16, "BF16"},
                                                  {DType::string, "BYTES"}}};
constexpr std::array<std::string_view, 14> type_config_names = {
    "TYPE_BOOL",  "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_INT8", "TYPE_INT16",
    "TYPE_INT32", "TYPE_INT64", "TYPE_FP16",   "TYPE_FP32",   "TYPE_FP64",   "TYPE_BF16", "TYPE_STRING"};

size_t type_index(DType dtype) {
  for (size_t i = 0; i < type_names.size(); ++i)
    if (type_names[i].dtype == dtype) return i;
  throw ServerError(StatusCode::unsupported, "tensors of " + std::string(to_string(dtype)) +
                                                 " have no name in the protocol: cast them within the model");
}

}  // namespace

std::string_view protocol_name(DType dtype) {
  return type_names[type_index(dtype)].protocol;
}

DType parse_protocol_type(std::string_view name) {
  for (const TypeName& type : type_names)
    if (type.protocol == name) return type.dtype;
  std::string known;
  for (const TypeName& type : type_names) known.append(known.empty() ? "" : ", ").append(type.protocol);
  throw ServerError(StatusCode::invalid_argument,
                    "unknown datatype '" + std::string(name.substr(0, 64)) + "': there are " + known);
}

std::string_view config_name(DType dtype) {
  return type_config_names[type_index(dtype)];
}

DType parse_config_type(std::string_view name) {
  for (size_t i = 0; i < type_config_names.size(); ++i)
    if (type_config_names[i] == name) return type_names[i].dtype;
  throw ServerError(StatusCode::invalid_argument, "unknown data_type '" + std::string(name.substr(0, 64)) + "'");
}

int64_t element_count(std::span<const int64_t> shape) {
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0)
      throw ServerError(StatusCode::invalid_argument, "the shape " + shape_text(shape) + " has a negative size");
    empty |= size == 0;
  }
  if (empty) return 0;
  int64_t count = 1;
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count))
      throw ServerError(StatusCode::invalid_argument, "the shape " + shape_text(shape) + " has too many elements");
  return count;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) text.append(i == 0 ? "" : ",").append(std::to_string(shape[i]));
  return text + "]";
}

}  // namespace camshaft::server
