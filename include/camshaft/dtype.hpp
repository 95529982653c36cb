// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "camshaft/camshaft.h"
#include "camshaft/error.hpp"

namespace camshaft {
inline namespace v1 {

/// Element type of a tensor.
enum class DType : int32_t {
  f64 = CAMSHAFT_F64,
  f32 = CAMSHAFT_F32,
  f16 = CAMSHAFT_F16,
  bf16 = CAMSHAFT_BF16,
  f8e4m3 = CAMSHAFT_F8E4M3,
  f8e5m2 = CAMSHAFT_F8E5M2,
  f4e2m1 = CAMSHAFT_F4E2M1,
  i64 = CAMSHAFT_I64,
  i32 = CAMSHAFT_I32,
  i16 = CAMSHAFT_I16,
  i8 = CAMSHAFT_I8,
  i4 = CAMSHAFT_I4,
  u64 = CAMSHAFT_U64,
  u32 = CAMSHAFT_U32,
  u16 = CAMSHAFT_U16,
  u8 = CAMSHAFT_U8,
  u4 = CAMSHAFT_U4,
  boolean = CAMSHAFT_BOOL,   ///< one byte, 0 or 1
  string = CAMSHAFT_STRING,  ///< host only: see Tensor::text
  f8e4m3fnuz = CAMSHAFT_F8E4M3FNUZ,
  f8e5m2fnuz = CAMSHAFT_F8E5M2FNUZ,
  f8e8m0 = CAMSHAFT_F8E8M0,  ///< a power of two from 2^-127 to 2^127, or NaN
  i2 = CAMSHAFT_I2,
  u2 = CAMSHAFT_U2,
  // Containers of tensors, host only. See Tensor::element.
  sequence = CAMSHAFT_SEQUENCE,  ///< any number of values of one type
  optional = CAMSHAFT_OPTIONAL,  ///< one value or none
  map = CAMSHAFT_MAP,            ///< keys and values: two tensors of one axis, equally long
};

/// "f32", "bool", "string", …: the name used in text form, on the command line and in JSON; "unknown" for a type of a
/// later version.
inline std::string_view to_string(DType dtype) {
  const char* name = camshaft_dtype_name(static_cast<camshaft_dtype>(dtype));
  return name == nullptr ? "unknown" : name;
}
/// The inverse; throws Error(invalid_argument) that lists the known names.
inline DType parse_dtype(std::string_view name) {
  camshaft_dtype dtype = 0;
  detail::check(camshaft_dtype_parse(std::string(name).c_str(), &dtype));
  return static_cast<DType>(dtype);
}
/// Bits of one element as stored: 4 or 2 for the packed types, 8 for bool; 0 for strings and containers.
inline int bit_width(DType dtype) {
  return camshaft_dtype_bits(static_cast<camshaft_dtype>(dtype));
}
/// Whether several elements share a byte.
inline bool is_packed(DType dtype) {
  return bit_width(dtype) > 0 && bit_width(dtype) < 8;
}
/// Bytes that `count` elements take: 4-bit types are packed two to a byte, 2-bit types four.
inline size_t byte_size(DType dtype, int64_t count) {
  return (static_cast<size_t>(count) * static_cast<size_t>(bit_width(dtype)) + 7) / 8;
}
inline bool is_floating(DType dtype) {
  const std::string_view name = to_string(dtype);
  return name.front() == 'f' || name == "bf16";
}
/// Signed or unsigned integers; not bool.
inline bool is_integer(DType dtype) {
  const std::string_view name = to_string(dtype);
  return name.size() > 1 && (name.front() == 'i' || name.front() == 'u') && name[1] >= '0' && name[1] <= '9';
}
/// Floats and signed integers.
inline bool is_signed(DType dtype) {
  return is_floating(dtype) || (is_integer(dtype) && to_string(dtype).front() == 'i');
}
/// Sequence, optional or map.
inline bool is_container(DType dtype) {
  return dtype == DType::sequence || dtype == DType::optional || dtype == DType::map;
}
/// String or a container: the elements are no plain bytes.
inline bool holds_objects(DType dtype) {
  return dtype == DType::string || is_container(dtype);
}

}  // namespace v1
}  // namespace camshaft
