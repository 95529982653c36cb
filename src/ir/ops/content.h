// Folding of shape arithmetic: elements known as expressions of the dims.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/ops/scalar_function.h"

namespace camshaft::ops {

/// The elements of an input if they are known, whatever its rank (a list: rank 0 has one).
using Content = std::optional<std::vector<Dim>>;

/// The elements of function(operands...), broadcast among lists of 1 and n elements, or nullopt when they are not known
/// for certain as expressions. `operands` may lack the branch of select that is never taken. Tensors of dtype
/// `operand` (integers or bool), u64 left out.
Content fold_pointwise(ScalarFunction function, DType operand, const std::vector<Content>& operands);

/// The elements after a conversion between integer dtypes and bool.
Content fold_cast(DType from, DType to, const Content& elements);

}  // namespace camshaft::ops
