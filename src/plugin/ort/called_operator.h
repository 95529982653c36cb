// Operators of ONNX that a kernel calls itself (CreateOp, InvokeOp).
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "onnx/proto.h"
#include "plugin/ort/objects.h"

namespace camshaft::ort {

/// OrtOp: a node by itself. It runs by the reference evaluation, which has every operator, and is no fast one.
class CalledOperator {
 public:
  /// Throws Error(unsupported) for an operator that Camshaft does not have in that version of its domain.
  CalledOperator(const std::string& name, const std::string& domain, int64_t version,
                 const std::vector<const OpAttribute*>& attributes, size_t inputs, size_t outputs);
  /// Computes the outputs, whose shapes must be those of the results. Null inputs are left out. Throws Error.
  void run(const std::vector<const Value*>& inputs, const std::vector<Value*>& outputs, ThreadPool& pool) const;

 private:
  /// The node as a graph, for operands as they are: small ones of integers may be shapes, and are constants.
  Graph graph_for(const std::vector<const Value*>& inputs) const;

  onnx::NodeProto node_;
  int64_t version_;
};

}  // namespace camshaft::ort
