// Nests of axes as kernels are given them: the struct of device/axes.cuh.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/tactics/divisor.h"
#include "ir/tensor.h"

namespace camshaft::cuda {

constexpr size_t most_axes = 6;

struct Axes {
  uint32_t rank = 0;
  Divisor size[most_axes];
  int64_t stride[most_axes] = {};

  Axes() = default;
  /// Sizes from 0 to 2^32 - 1, outermost first; axes of size 1 are left out, and 0 counts as 1: then nothing runs.
  /// Throws Error(unsupported) when more than most_axes remain.
  Axes(const Dims& sizes, const Dims& strides);
};

/// The bytes of a Nest: the same for several operands, each with its strides.
std::vector<std::byte> nest_parameter(const Dims& sizes, const std::vector<Dims>& strides);

}  // namespace camshaft::cuda
