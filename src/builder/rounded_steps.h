// Numbers that are rounded to whole steps, as quantised values are: what rounding in another order moves by a whole
// step, or not at all.
#pragma once

#include "base/random.h"
#include "ir/graph.h"

namespace camshaft {

/// Whether a node rounds to whole numbers, as expand_quantization() writes quantize operators.
bool rounds_to_steps(const Node& node);

/// A copy of a tensor of f32 or f64 with each element a step up or down at random; others as they are.
Tensor with_steps(const Tensor& exact, Random& random);

}  // namespace camshaft
