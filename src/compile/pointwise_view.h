// A pointwise region as a scalar program over its operands.
#pragma once

#include <optional>
#include <vector>

#include "compile/backend.h"
#include "compile/scalar_program.h"

namespace camshaft {

struct PointwiseView {
  ScalarProgram program;
  std::vector<int32_t> loads;  ///< the region's input that each load of the program reads
};

/// Of a pointwise region, or a single pointwise operator or cast; nullopt for others, and where the outputs do not
/// share one iteration space or hold strings.
std::optional<PointwiseView> view_pointwise(const RegionView& region);

/// Elements between neighbours along each axis of the result.
struct PointwiseStrides {
  std::vector<std::vector<int64_t>> loads;  ///< 0 where one is broadcast
  std::vector<std::vector<int64_t>> outputs;
};

/// Throws Error(invalid_argument) for an operand that does not broadcast.
PointwiseStrides pointwise_strides(const PointwiseView& view, const KernelShapes& shapes);

}  // namespace camshaft
