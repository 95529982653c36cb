// What transposes through shared memory are given; other copies have a Space.
#pragma once

#include "backends/cuda/device/space_parameters.h"

namespace camshaft::cuda {

/// Neighbours in the operand (dim a) are far apart in the result, and the other way round (dim b). A block moves a
/// square of both; the other dims are counted by `outer`.
struct TransposeParameters {
  u32 size_a = 1, size_b = 1;
  Divisor tiles_a, tiles_b;
  i64 in_b = 0, out_a = 0;  ///< strides; those of a in the operand and of b in the result are 1
  u32 rank = 0;             ///< outer dims
  Divisor size[most_space_dims];
  i64 in[most_space_dims] = {}, out[most_space_dims] = {};
};

}  // namespace camshaft::cuda
