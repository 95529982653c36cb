// Element types of tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace camshaft {

/// Element type of a tensor. The numeric values are part of the engine format: append only.
enum class DType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3,
  f8e5m2,
  f4e2m1,
  i64,
  i32,
  i16,
  i8,
  i4,
  u64,
  u32,
  u16,
  u8,
  u4,
  boolean,  ///< one byte, 0 or 1
  string,   ///< host only: std::string elements
  f8e4m3fnuz,
  f8e5m2fnuz,
  f8e8m0,  ///< a power of two from 2^-127 to 2^127, or NaN
  i2,
  u2,
  // Containers of tensors, host only. See TensorView::elements.
  sequence,  ///< any number of values of one type
  optional,  ///< one value or none
  map,       ///< keys and values: two tensors of one axis, equally long
};
constexpr int dtype_count = static_cast<int>(DType::map) + 1;

/// "f32", "bool", "string", …: the name used in text form, on the command line and in JSON.
std::string_view to_string(DType dtype);
/// The inverse; throws Error(invalid_argument) that lists the known names.
DType parse_dtype(std::string_view name);
/// Bits of one element as stored: 4 or 2 for the packed types, 8 for bool. Strings and containers have no size:
/// throws Error(internal).
int bit_width(DType dtype);
/// Whether several elements share a byte.
bool is_packed(DType dtype);
/// Bytes that `count` elements take: 4-bit types are packed two to a byte, 2-bit types four.
size_t byte_size(DType dtype, int64_t count);
bool is_floating(DType dtype);
bool is_integer(DType dtype);     ///< signed or unsigned integers; not bool
bool is_byte(DType dtype);        ///< i8 or u8
bool is_signed(DType dtype);      ///< floats and signed integers
bool is_container(DType dtype);   ///< sequence, optional or map
bool holds_objects(DType dtype);  ///< string or a container: the elements are no plain bytes

}  // namespace camshaft
