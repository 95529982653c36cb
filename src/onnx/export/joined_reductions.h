// Reductions and comparisons that ONNX has one operator for where the graph has several.
#pragma once

#include <optional>

#include "onnx/export/joined_nodes.h"

namespace camshaft::onnx {

/// The root of a sum of squares, node `last`: ReduceL2.
std::optional<JoinedNodes> join_length(const Graph& graph, const Uses& uses, size_t last);

/// log Σ eˣ as the importer spells it, with a reshape that drops the axes or without, node `last`: ReduceLogSumExp.
std::optional<JoinedNodes> join_log_sum_exp(const Graph& graph, const Uses& uses, size_t last);

/// Which of so many positions an index is, as two numbers, node `last`: OneHot.
std::optional<JoinedNodes> join_one_hot(const Graph& graph, const Uses& uses, size_t last);

}  // namespace camshaft::onnx
