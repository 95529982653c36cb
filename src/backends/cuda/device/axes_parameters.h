// Nests of axes: where an element lies, from its number.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Most axes of a nest.
constexpr u32 most_axes = 6;

struct Axes {
  u32 rank = 0;                ///< 0: one element, and a stride of 0
  Divisor size[most_axes];     ///< outermost first
  i64 stride[most_axes] = {};  ///< in elements
};

/// The same nest of axes walked by several operands, each with strides of its own (0 where it is broadcast).
template <int operands>
struct Nest {
  u32 rank = 0;                          ///< 0: one element, and strides of 0
  Divisor size[most_axes];               ///< outermost first
  i64 stride[operands][most_axes] = {};  ///< in elements
};

}  // namespace camshaft::cuda
