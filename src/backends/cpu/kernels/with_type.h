// The C++ type of an element, for kernels that are templates. Internal to the kernels.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace camshaft::cpu {

// NOLINTBEGIN(bugprone-branch-clone): each case passes another type
template <class Visit>
void with_type(DType dtype, const char* what, Visit&& visit) {
  switch (dtype) {
    case DType::f32:
      return visit(float());
    case DType::f64:
      return visit(double());
    case DType::i64:
      return visit(int64_t());
    case DType::i32:
      return visit(int32_t());
    case DType::i16:
      return visit(int16_t());
    case DType::i8:
      return visit(int8_t());
    case DType::u64:
      return visit(uint64_t());
    case DType::u32:
      return visit(uint32_t());
    case DType::u16:
      return visit(uint16_t());
    case DType::u8:
      return visit(uint8_t());
    default:
      throw Error(ErrorCode::unsupported, "there is no " + std::string(what) + " kernel for " +
                                              std::string(to_string(dtype)) + "; cast, or evaluate by reference");
  }
}
// NOLINTEND(bugprone-branch-clone)

/// Whether with_type() has a type for it.
inline bool is_arithmetic(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || (is_integer(dtype) && bit_width(dtype) >= 8);
}

/// visit(T()) with an unsigned integer of `width` bytes: 1, 2, 4 or, for all others, 8.
template <class Visit>
void with_width(int64_t width, Visit&& visit) {
  switch (width) {
    case 1:
      return visit(uint8_t());
    case 2:
      return visit(uint16_t());
    case 4:
      return visit(uint32_t());
    default:
      return visit(uint64_t());
  }
}

}  // namespace camshaft::cpu
