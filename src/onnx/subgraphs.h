// The sub-graphs of one node, converted in the scope that the node is in.
#pragma once

#include "onnx/node_importer.h"

namespace camshaft::onnx {

/// What a scope with a graph of its own has become: without what nobody reads, and without captures that only shape
/// arithmetic has read. The first `own_inputs` of the graph's inputs are kept.
Body finished_body(GraphUnderConstruction& target, Scope& scope, size_t own_inputs);

/// The parts of an If.
struct Branches {
  Values inputs;  ///< the condition, then what either branch captures
  std::vector<Graph> bodies;
};
Branches join_branches(ValueId condition, Body yes, Body no, const Graph& around);

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
