// Nests of axes as kernels are given them.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/device/axes_parameters.h"
#include "ir/tensor.h"

namespace camshaft::cuda {

/// Sizes from 0 to 2^32 - 1, outermost first; axes of size 1 are left out, and 0 counts as 1: then nothing runs.
/// Throws Error(unsupported) when more than most_axes remain.
Axes axes_of(const Dims& sizes, const Dims& strides);

/// The bytes of a Nest of so many operands, at least one, each with its strides.
std::vector<std::byte> nest_parameter(const Dims& sizes, const std::vector<Dims>& strides);

}  // namespace camshaft::cuda
