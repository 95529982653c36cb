// The sub-graphs of one node, converted in the scope that the node is in.
#pragma once

#include "onnx/node_importer.h"

namespace camshaft::onnx {

/// `source` is the node's name for people; names inside its sub-graphs begin with it.
class ScopedSubgraphs final : public SubgraphImporter {
 public:
  ScopedSubgraphs(NodeImporter& importer, Scope& around, const std::string& source)
      : importer_(importer), around_(around), source_(source) {}

  Body import(const GraphProto& subgraph, const std::string& label, const std::vector<TensorType>& inputs) override;
  Values inlined(const GraphProto& subgraph, const Values& inputs) override;
  Dim fresh(const GraphProto& subgraph, const std::string& label, size_t input, size_t axis) override;

 private:
  const std::string& prefix();
  Values convert(const GraphProto& subgraph, Scope& scope);

  NodeImporter& importer_;
  Scope& around_;
  const std::string& source_;
  std::string prefix_;
};

}  // namespace camshaft::onnx
