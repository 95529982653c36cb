// Indices that go along an axis in equal steps.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// The index at [i, j, …] is first + i · steps[0] + j · steps[1] + …; no step is negative.
struct EvenIndices {
  Dim first = 0;
  std::vector<int64_t> steps;
};

/// What is known of an axis of `size` elements to be taken: constants, ranges, what expands them, and sums of these
/// that broadcast. nullopt where they are not evenly spaced, or may be outside of the axis.
std::optional<EvenIndices> even_indices(const Graph& graph, const Uses& uses, ValueId indices, const Dim& size);
/// The same of indices that are at hand.
std::optional<EvenIndices> even_indices(const Tensor& indices, const Dim& size);

}  // namespace camshaft
