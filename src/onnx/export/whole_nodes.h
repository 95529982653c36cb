// Operators of a model that reading it takes apart, and that nothing changed since: written as they were. A pipeline of
// scikit-learn keeps its Scaler and LinearClassifier, and a sum of many stays one Sum.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "onnx/export/joined_nodes.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

/// What a graph was before it was changed. Both must outlive what is written.
struct OriginalModel {
  const ModelProto& model;
  const Graph& graph;  ///< as it was imported
};

/// The groups of nodes of a graph that are what one node of the original computes, of the operators above: what they
/// read and what others read of them are that node's inputs and outputs, by their names and types.
std::vector<JoinedNodes> whole_nodes(const Graph& graph, const OriginalModel& original);

}  // namespace camshaft::onnx
