#include "onnx/onnx_dtype.h"

#include <fmt/format.h>

#include <optional>

#include "base/error.h"

namespace camshaft::onnx {
namespace {

struct DataType {
  const char* name;
  std::optional<DType> dtype;
};

// The index is TensorProto.DataType, up to IR version 13.
constexpr DataType kDataTypes[] = {
    {"UNDEFINED", {}},
    {"FLOAT", DType::f32},
    {"UINT8", DType::u8},
    {"INT8", DType::i8},
    {"UINT16", DType::u16},
    {"INT16", DType::i16},
    {"INT32", DType::i32},
    {"INT64", DType::i64},
    {"STRING", DType::string},
    {"BOOL", DType::boolean},
    {"FLOAT16", DType::f16},
    {"DOUBLE", DType::f64},
    {"UINT32", DType::u32},
    {"UINT64", DType::u64},
    {"COMPLEX64", {}},
    {"COMPLEX128", {}},
    {"BFLOAT16", DType::bf16},
    {"FLOAT8E4M3FN", DType::f8e4m3},
    {"FLOAT8E4M3FNUZ", DType::f8e4m3fnuz},
    {"FLOAT8E5M2", DType::f8e5m2},
    {"FLOAT8E5M2FNUZ", DType::f8e5m2fnuz},
    {"UINT4", DType::u4},
    {"INT4", DType::i4},
    {"FLOAT4E2M1", DType::f4e2m1},
    {"FLOAT8E8M0", DType::f8e8m0},
    {"UINT2", DType::u2},
    {"INT2", DType::i2},
};
constexpr int32_t kCount = sizeof kDataTypes / sizeof kDataTypes[0];

}  // namespace

std::string data_type_name(int32_t data_type) {
  if (data_type < 0 || data_type >= kCount) return fmt::format("data type {}", data_type);
  return kDataTypes[data_type].name;
}

DType dtype_from_onnx(int32_t data_type, std::string_view where) {
  if (data_type <= 0 || data_type >= kCount)
    throw Error(ErrorCode::invalid_model, fmt::format("{} has {}, which is no element type of ONNX", where,
                                                      data_type == 0 ? "no data type" : data_type_name(data_type)));
  if (!kDataTypes[data_type].dtype)
    throw Error(ErrorCode::unsupported, fmt::format("{} has element type {}, which Camshaft does not support", where,
                                                    data_type_name(data_type)));
  return *kDataTypes[data_type].dtype;
}

int32_t dtype_to_onnx(DType dtype) {
  for (int32_t i = 0; i < kCount; ++i)
    if (kDataTypes[i].dtype == dtype) return i;
  throw Error(ErrorCode::internal, fmt::format("{} has no ONNX data type", to_string(dtype)));
}

}  // namespace camshaft::onnx
