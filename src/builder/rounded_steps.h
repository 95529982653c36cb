// Numbers that are rounded to whole steps, as quantised values are: what rounding in another order moves by a whole
// step, or not at all.
#pragma once

#include <vector>

#include "base/random.h"
#include "ir/graph.h"

namespace camshaft {

/// Whether a node rounds to whole numbers, or to 8-bit floats, as expand_quantization() writes quantize operators.
bool rounds_to_steps(const Node& node);

/// How far rounding may have moved numbers before they are rounded to steps, by element; one that is not finite says
/// nothing.
using EdgeReach = std::vector<double>;

/// What rounding gives on the other side of the nearest edges: a copy of `rounded`, in which every element whose
/// `unrounded` number lies within `reach` of edges between steps is as many steps off, toward the nearest one. (A step
/// alone left most of what bf16 moves by several undecided, and a row of zeros among it passed.) Of 8-bit floats it is
/// one step. With `random` every second of these, at random. Tensors of f32, f64 or 8-bit floats; others as they are.
Tensor across_edges(const Tensor& rounded, const Tensor& unrounded, const EdgeReach& reach, Random* random);

}  // namespace camshaft
