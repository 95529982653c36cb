// Tensors that operators read and write through strides: sizes and strides bound, and held against the tensor.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

/// Sizes and strides of some axes, in elements.
struct StridedAxes {
  Dims sizes, strides;
};

/// The axes of these sizes, whose strides are those of `access` from its entry `first` on.
StridedAxes bind_axes(const Shape& sizes, const Shape& access, size_t first, const SymbolBindings& symbols);

/// Adds the largest index along the axes to `last`. Throws Error(invalid_argument), which says `what` is read or
/// written, when a stride is negative or the index reaches `elements`. Sizes are 1 and more.
void require_inside(const StridedAxes& axes, int64_t elements, const char* what, int64_t& last);

/// Throws Error(invalid_argument) unless an access has an offset and one stride for each of so many axes.
void require_strides(const Shape& access, size_t axes, const char* what);

/// The product of sizes.
Dim count_of(const Shape& sizes);

}  // namespace camshaft::ops
