// Which operators sum products: what anchors a contract region.
#pragma once

#include "ir/op.h"

namespace camshaft::ops {

/// Of floats.
bool is_float_contraction(const Op& op);
/// Of 8-bit numbers, whose sums are i32.
bool is_integer_contraction(const Op& op);
inline bool is_contraction(const Op& op) {
  return is_float_contraction(op) || is_integer_contraction(op);
}

}  // namespace camshaft::ops
