// An axis that is an operand, where it is known when compiling.
#pragma once

#include <optional>

#include "compile/backend.h"

namespace camshaft {

/// The axis of input 0 that the constant at input 1 names, counted from the front; nullopt where it is no constant, or
/// names none.
inline std::optional<int64_t> constant_axis(const RegionView& region) {
  const Tensor* given = region.constant(1);
  if (!given || given->size() != 1) return std::nullopt;
  const auto rank = static_cast<int64_t>(region.graph.shape(region.node.inputs[0]).size());
  const int64_t axis = given->to_ints()[0];
  if (axis < -rank || axis >= rank) return std::nullopt;
  return axis < 0 ? axis + rank : axis;
}

}  // namespace camshaft
