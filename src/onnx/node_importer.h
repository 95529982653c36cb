// Converts lists of nodes: of the main graph, and of functions, which are inlined.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "onnx/convert_context.h"
#include "onnx/declared_type.h"

namespace camshaft::onnx {

/// The names that nodes of one graph, sub-graph or function body see.
struct Scope {
  Scope(const OpsetImports& opset_imports, GraphUnderConstruction& graph, std::string name_prefix = {})
      : opsets(&opset_imports), target(&graph), prefix(std::move(name_prefix)) {}

  const OpsetImports* opsets;
  GraphUnderConstruction* target;  ///< where the nodes go
  std::string prefix;              ///< before the names of nodes and values, in functions and sub-graphs: "call/"
  std::unordered_map<std::string, ValueId> values;
  /// Initializers that no node has read yet: weights nobody uses are not decoded.
  std::unordered_map<std::string, const TensorProto*> initializers;
  DeclaredTypes declared;
  /// Values of nodes that could not be converted.
  std::set<std::string> lost;

  /// Of a sub-graph: where the names are that it does not define itself. When it has a graph of its own, values of the
  /// outer graph become inputs of it.
  Scope* outer = nullptr;
  std::vector<ValueId> captures;                  ///< values of the outer graph, in the order of those inputs
  std::unordered_map<ValueId, ValueId> captured;  ///< values of the outer graph -> of this one
};

/// Thrown by a function or sub-graph that could not be converted as a whole: its nodes are already reported.
struct BodyRefused {};

class NodeImporter {
 public:
  explicit NodeImporter(const ModelProto& model) : model_(model), functions_(model) {}

  void add_initializers(const GraphProto& graph, Scope& scope);
  /// Notes the types that values are declared to have.
  static void declare(const std::vector<ValueInfoProto>& values, Scope& scope);
  /// Converts nodes given in any order. A node that is refused as unsupported is remembered for report(), and so no
  /// later node that depends on it is tried; any other error is thrown at once. `results` are the names that the graph
  /// gives; no other values are known afterwards of nodes that depend on an If whose branches differ in rank. Throws
  /// RanksDiffer when that decides the rank of a result.
  void add_nodes(const std::vector<NodeProto>& nodes, const std::vector<std::string>& results, Scope& scope);
  /// Converts one node more, for a caller that has them one by one. What is refused is thrown, and the node's names are
  /// free again then.
  void add(const NodeProto& node, Scope& scope);
  /// Remembers for report() why a node, or all of the model, cannot be run.
  void refuse(std::string message);
  /// Throws one Error(unsupported) with all that was refused.
  void report() const;
  std::optional<ValueId> find(const std::string& name, Scope& scope);
  /// True for what a node computes that could not be converted.
  static bool is_lost(const std::string& name, const Scope& scope);
  /// `base`, or `base` with a number behind it: given out once.
  std::string unique_prefix(const std::string& base);
  /// The sub-graphs around the node that is being converted.
  int depth = 0;

  /// Counts the nodes that are converted anew for one case of an If, and the cases within each other, while it lives:
  /// throws Error(unsupported) when they are too many.
  class Case {
   public:
    Case(NodeImporter& importer, size_t nodes);
    ~Case() { --importer_.open_cases_; }
    Case(const Case&) = delete;
    Case& operator=(const Case&) = delete;

   private:
    NodeImporter& importer_;
  };

 private:
  void add_node(const NodeProto& node, Scope& scope);
  Values convert(const NodeProto& node, const std::string& source, Values inputs, Scope& scope);
  Values inline_function(const FunctionProto& function, const NodeProto& call, const std::string& source,
                         const Values& inputs, GraphUnderConstruction& target);

  const ModelProto& model_;
  FunctionTable functions_;
  std::unordered_map<std::string, int> prefixes_;
  /// A loop's body is converted up to four times, and one inside another up to four times as often.
  static constexpr size_t largest_nested = 1u << 20;

  /// Each If whose branches differ in rank can double what follows it.
  static constexpr size_t largest_cases = 1u << 16;
  static constexpr int deepest_cases = 64;

  std::vector<const FunctionProto*> calls_;
  size_t case_nodes_ = 0;
  int open_cases_ = 0;
  size_t inlined_nodes_ = 0;
  size_t copied_bytes_ = 0;  ///< of attributes of calls, where functions refer to them
  size_t nested_nodes_ = 0;
  std::vector<std::string> refused_;  ///< each once
  std::unordered_set<std::string> is_refused_;
};

}  // namespace camshaft::onnx
