// Converts lists of nodes: of the main graph, and of functions, which are inlined.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// The names that nodes of one graph or function body see. (A sub-graph's scope would have its own
/// GraphUnderConstruction and find() what it does not define in the scope around it.)
struct Scope {
  const OpsetImports* opsets;
  std::string prefix;  ///< before the names of nodes and values, in functions: "call/"
  std::unordered_map<std::string, ValueId> values;
  /// Initializers that no node has read yet: weights nobody uses are not decoded.
  std::unordered_map<std::string, const TensorProto*> initializers;
  /// Values of nodes that could not be converted.
  std::set<std::string> lost;
};

class NodeImporter {
 public:
  NodeImporter(const ModelProto& model, GraphUnderConstruction& target) : model_(model), target_(target) {}

  void add_initializers(const GraphProto& graph, Scope& scope);
  /// Converts nodes given in any order. A node that is refused as unsupported is remembered for report(), and so no
  /// later node that depends on it is tried; any other error is thrown at once.
  void add_nodes(const std::vector<NodeProto>& nodes, Scope& scope);
  /// Throws one Error(unsupported) with all that was refused.
  void report() const;
  std::optional<ValueId> find(const std::string& name, Scope& scope);

 private:
  void add_node(const NodeProto& node, Scope& scope);
  Values convert(const NodeProto& node, const std::string& source, Values inputs, const Scope& scope);
  Values inline_function(const FunctionProto& function, const NodeProto& call, const std::string& source,
                         const Values& inputs);

  const ModelProto& model_;
  GraphUnderConstruction& target_;
  std::vector<const FunctionProto*> calls_;
  std::vector<std::string> refused_;
};

}  // namespace camshaft::onnx
