// Moves that ONNX has one operator for where the graph has several.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "onnx/export/joined_nodes.h"

namespace camshaft::onnx {

/// A slice of one element of an axis and the reshape behind it, node `last`, that drops the axis: Gather by a number.
std::optional<JoinedNodes> join_gather(const Graph& graph, const Uses& uses, size_t last);

/// A reshape, a transpose and a reshape, node `last`, that bring blocks of pixels into channels or back: SpaceToDepth
/// and DepthToSpace.
std::optional<JoinedNodes> join_blocks(const Graph& graph, const Uses& uses, size_t last);

/// Slices of one value along one axis that do not overlap: Split, in which what lies between them is a part that
/// nothing reads. `is_free`: nodes that may be joined.
std::vector<JoinedNodes> join_splits(const Graph& graph, const std::function<bool(size_t node)>& is_free);

}  // namespace camshaft::onnx
