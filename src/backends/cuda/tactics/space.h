// The parameter Space of kernels.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/device/space_parameters.h"
#include "ir/ops/broadcast.h"

namespace camshaft::cuda {

/// The bytes of a Space, for a launch over the nest in chunks of `elements` along the last dim, which they divide. At
/// most most_space_dims dims, none of which is 0, and fewer than 2^32 chunks.
std::vector<std::byte> space_parameter(const ops::LoopNest& nest, int elements);

}  // namespace camshaft::cuda
