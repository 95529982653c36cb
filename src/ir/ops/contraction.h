// Which operators sum products: what anchors a contract region.
#pragma once

#include "ir/op.h"

namespace camshaft::ops {

inline bool is_float_contraction(const Op& op) {
  return op.traits().products == Products::floats;
}
/// Of 8-bit numbers: of integers, whose sums are i32, or of floats, whose sums are f32.
inline bool is_byte_contraction(const Op& op) {
  return op.traits().products == Products::bytes;
}
inline bool is_contraction(const Op& op) {
  return op.traits().products != Products::none;
}

}  // namespace camshaft::ops
