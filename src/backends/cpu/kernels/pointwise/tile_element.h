// The elements of tiles as types of C++. Internal to the pointwise executor.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/half.h"
#include "base/dtype.h"

namespace camshaft::cpu {

struct Bool {
  uint8_t byte;
};

// NOLINTBEGIN(bugprone-branch-clone): each case passes another type
/// Calls visit(T()) with the element type of a dtype; false for those without one (4-bit, 8-bit floats, strings).
template <class Visit>
bool with_element_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::f64:
      return visit(double()), true;
    case DType::f32:
      return visit(float()), true;
    case DType::f16:
      return visit(Half()), true;
    case DType::bf16:
      return visit(BFloat()), true;
    case DType::i64:
      return visit(int64_t()), true;
    case DType::i32:
      return visit(int32_t()), true;
    case DType::i16:
      return visit(int16_t()), true;
    case DType::i8:
      return visit(int8_t()), true;
    case DType::u64:
      return visit(uint64_t()), true;
    case DType::u32:
      return visit(uint32_t()), true;
    case DType::u16:
      return visit(uint16_t()), true;
    case DType::u8:
      return visit(uint8_t()), true;
    case DType::boolean:
      return visit(Bool()), true;
    default:
      return false;
  }
}
// NOLINTEND(bugprone-branch-clone)

}  // namespace camshaft::cpu
