// What a graph may hold at most.
#pragma once

#include <cstdint>

namespace camshaft {

/// Axes of a value: work on all pairs of axes stays small whatever a file says.
constexpr int64_t most_axes = 256;
/// Axes that a model's own values may have: some operators are made of others that split each axis.
constexpr int64_t most_model_axes = 64;
/// Containers within containers.
constexpr int most_nested_containers = 16;

}  // namespace camshaft
