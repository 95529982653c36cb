// A reduction with what is fused before and behind it, taken apart.
#pragma once

#include <optional>

#include "compile/backend.h"
#include "compile/region/pointwise_view.h"
#include "ir/ops/reduce.h"

namespace camshaft {

/// A plain reduction, or a reduce region. Loads are inputs of the region.
struct ReduceView {
  ops::Reduce op;
  TensorType in, result;  ///< of the reduction itself

  int32_t input = -1;                   ///< what is reduced, where `before` does not compute it
  std::optional<PointwiseView> before;  ///< its only output is the tensor that is reduced
  std::optional<PointwiseView> behind;  ///< its only output has the result's type and shape
  int32_t reduced = 0;                  ///< the load of `behind` that is the reduction's result: one past the inputs
};

/// nullopt when the node is neither, or its body is more than pointwise steps that lead to one reduction, and from
/// there to one result of that one's type and shape.
std::optional<ReduceView> view_reduce(const RegionView& region);

/// What the strides of the two programs are made from (pointwise_strides): their loads, and what they compute. Throws
/// Error(invalid_argument) where the region's operands do not fit together.
KernelShapes shapes_before(const ReduceView& view, const KernelShapes& shapes);
KernelShapes shapes_behind(const KernelShapes& shapes);

}  // namespace camshaft
