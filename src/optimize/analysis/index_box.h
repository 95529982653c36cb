// Indices that together name a dense part of a tensor, in its order.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace camshaft {

/// Along axis d of a tensor the elements from starts[d] on, counts[d] of them.
struct IndexBox {
  Shape starts, counts;
};

/// What indices[..., q] name of a tensor of `shape`: q numbers lead to a slice of it each. nullopt where they do not
/// make up a box, each slice once and one behind the other, or may be outside of the tensor.
std::optional<IndexBox> box_of_slices(const Graph& graph, const Uses& uses, ValueId indices, const Shape& shape);

/// The same for the indices of ONNX's ScatterElements, which name an element along `axis` each.
std::optional<IndexBox> box_of_elements(const Graph& graph, const Uses& uses, ValueId indices, int64_t axis,
                                        const Shape& shape);

}  // namespace camshaft
