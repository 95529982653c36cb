// Shape arithmetic in floating point: sizes times a factor, rounded.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "onnx/constant_finder.h"

namespace camshaft::onnx {

/// The elements of float tensor `id` (rank 0 or 1), cut to integers, as expressions of the sizes that they were made
/// from: of casts of sizes, their sums, products and quotients with numbers, floor and ceil. Only what floating point
/// computes exactly for sizes below 2^22 is followed: factors like 2, 0.75 or 1/8, and division by a whole number.
std::optional<std::vector<Dim>> cut_to_sizes(const Graph& graph, ConstantFinder& constants, ValueId id);

}  // namespace camshaft::onnx
