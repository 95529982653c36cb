// ONNX's rules for the bounds of a slice, on symbolic sizes.
#pragma once

#include <optional>

#include "ir/dim.h"

namespace camshaft::ops {

/// Elements start + i·step, i in [0, count), of one axis; all are in range (start is meaningless when count is 0).
struct SliceRange {
  Dim start;
  Dim count;
};

/// What `x[start:end:step]` takes of an axis of `size` elements: negative bounds count from the end, then bounds are
/// clamped as ONNX's Slice says. Bounds of at least 2^31 - 1 in magnitude mean "to the end", and an end
/// of INT32_MAX or INT64_MAX does so for a negative step too, as in ONNX Runtime. nullopt when a symbolic
/// bound may be negative or not, depending on the sizes, and when the expressions outgrow their limits. Throws
/// Error(invalid_argument) for a step of 0. Constant arguments always give constants.
std::optional<SliceRange> slice_range(const Dim& start, const Dim& end, int64_t step, const Dim& size);

/// The same in numbers.
struct AxisRange {
  int64_t start = 0, count = 0, step = 1;
};

/// Throws Error(invalid_argument) naming `axis` when a range takes elements that an axis of `size` has not.
void check_inside(const AxisRange& range, int64_t size, int64_t axis);

}  // namespace camshaft::ops
