// The iteration of pointwise kernels and of copies.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

/// Most dims of a space.
constexpr u32 most_space_dims = 8;

/// Dims of which the last one is cut into chunks of elements that a thread takes at once. Every operand has a stride
/// along each dim, 0 where it is broadcast.
template <int operands>
struct Space {
  u32 chunks = 0, rank = 0;       ///< chunks in all; dims before the last
  Divisor size[most_space_dims];  ///< of the dims before the last, and then the chunks along that
  i64 stride[operands][most_space_dims] = {};
};

}  // namespace camshaft::cuda
