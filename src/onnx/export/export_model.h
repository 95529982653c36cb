// From a graph to a standard ONNX model: the inverse of importer.h.
#pragma once

#include <string>

#include "ir/graph.h"
#include "onnx/export/whole_nodes.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

struct ExportOptions {
  std::string producer_version;  ///< of "camshaft"
  Metadata metadata;
  /// Operators that reading took apart are written as they were where this is given (whole_nodes.h). It must outlive
  /// the written model.
  const OriginalModel* original = nullptr;
};

/// Writes a graph as an ONNX model of operator set 21, or of the first one that has all that the graph uses.
///
/// Inputs and outputs keep their names and order; other values keep theirs where they are unique, and UTF-8. Constants
/// are initializers of their own dtypes. Sizes that are symbols are dimensions of that name; arithmetic on them becomes
/// nodes (Shape, Mul, …), so that the model takes every size that the graph takes. Importing the model gives a graph
/// that computes the same values. An operator may become several nodes: those are named after it.
///
/// The tensors of the model are views of the graph's constants, and valid as long as those.
///
/// Throws Error(unsupported) that names the node, its operator and the way out: for operators that ONNX has nothing
/// for, and for the forms that the optimiser brings graphs into after canonicalisation (regions, packed layouts).
ModelProto export_model(const Graph& graph, const ExportOptions& options = {});

}  // namespace camshaft::onnx
