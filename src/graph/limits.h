// What a graph may hold at most.
#pragma once

#include <cstdint>

namespace camshaft {

/// Axes of a value: work on all pairs of axes stays small whatever a file says.
constexpr int64_t most_axes = 64;

}  // namespace camshaft
