// A pointwise region as a scalar program over its operands.
#pragma once

#include <optional>
#include <vector>

#include "compile/backend.h"
#include "compile/region/scalar_program.h"

namespace camshaft {

struct PointwiseView {
  ScalarProgram program;
  std::vector<int32_t> loads;  ///< the region's input that each load of the program reads
  /// Of each load: the input's axes in the order in which they are read; empty: as they lie.
  std::vector<std::vector<int64_t>> permutations;
  /// Not 0: the last axis of what is computed is filled up to this size with zeros (and then put together with the one
  /// before it, where the result's is larger).
  int64_t filled = 0;
};

/// Of a pointwise region, or a single pointwise operator or cast; nullopt for others, and where the outputs do not
/// share one iteration space or hold strings. Only where `with_transposes` is said may a body begin with transposes of
/// its inputs, and end in zeros behind its last axis.
std::optional<PointwiseView> view_pointwise(const RegionView& region, bool with_transposes = false);

/// Elements between neighbours along each axis of the result.
struct PointwiseStrides {
  std::vector<std::vector<int64_t>> loads;  ///< 0 where one is broadcast
  std::vector<std::vector<int64_t>> outputs;
};

/// Throws Error(invalid_argument) for an operand that does not broadcast.
PointwiseStrides pointwise_strides(const PointwiseView& view, const KernelShapes& shapes);

}  // namespace camshaft
