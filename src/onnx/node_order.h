// The order in which a graph's nodes can be converted.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "onnx/proto.h"

namespace camshaft::onnx {

/// The name of a node for people: its own, or "Conv(first output)" when it has none.
std::string display_name(const NodeProto& node);

/// A name of any length, made short enough to stand before the names of everything inside of a node.
std::string shortened(const std::string& name);

/// Calls `visit` with every name that the node reads from around it: its inputs, and what its sub-graphs capture.
void for_each_read(const NodeProto& node, const std::function<void(const std::string&)>& visit);

/// Indices of `nodes`, every node after those whose outputs it reads, else in the order of the file. Throws
/// Error(invalid_model) for a cycle and for a value that two nodes define; `where` begins the message.
std::vector<size_t> topological_order(std::span<const NodeProto> nodes, const std::string& where);

}  // namespace camshaft::onnx
