// Values by keys: the importer takes a LabelEncoder apart into finding the key and gathering, so that two of the same
// keys search once. Here it becomes one operator again.
#pragma once

#include <optional>

#include "onnx/export/joined_nodes.h"

namespace camshaft::onnx {

/// The search for keys, node `first`, with all that is gathered by it out of tables: a LabelEncoder each.
std::optional<JoinedNodes> join_lookups(const Graph& graph, const Uses& uses, size_t first);

}  // namespace camshaft::onnx
