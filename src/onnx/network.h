// A model that a program makes node by node.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/node_importer.h"
#include "onnx/operator_schema.h"

namespace camshaft::onnx {

/// A node as it is added; see AttributeProto for attributes. Values have the names of ONNX's tensors.
struct NetworkNode {
  std::string op_type, domain;
  std::string name;                 ///< empty: made up
  std::vector<std::string> inputs;  ///< "" for one left out
  /// Names of the results: one that is not there is made up, "" leaves the result out.
  std::vector<std::optional<std::string>> outputs;
  std::vector<AttributeProto> attributes;
};

/// The graph of a model, or a sub-graph in it, under construction. Each node goes through the importer when it is
/// added, so that its operator, arguments and shapes are checked, and the types of its results known, at once; what is
/// kept is the ONNX model itself. A call that throws leaves the network as it was.
class Network : public std::enable_shared_from_this<Network> {
 public:
  /// `opset`: the version of ONNX's operator set that nodes are read by; 0: the newest. Throws Error(invalid_argument)
  /// for one that there is not.
  static std::shared_ptr<Network> create(const std::string& name, int64_t opset = 0);
  /// The body of an If, a Loop or a Scan that will be added here. It sees the values of the graphs around it.
  std::shared_ptr<Network> create_subgraph(const std::string& name);

  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  ~Network();

  /// A tensor type's sizes are numbers, names (the same name is the same size), or neither. Throws
  /// Error(invalid_argument), as all of these do, for names that are taken and for types that are not known.
  void add_input(const std::string& name, const TypeProto& type);
  /// Keeps what owns the tensor's bytes, which are not copied unless they are not aligned. `name` may be empty; returns
  /// the name.
  std::string add_constant(const std::string& name, const Tensor& tensor);
  /// The value of an attribute, kept in the same way.
  TensorProto keep(const std::string& name, const Tensor& tensor);
  /// The names of the results, "" for those left out. Throws also Error(unsupported), for what Camshaft cannot run.
  std::vector<std::string> add_node(NetworkNode node);
  /// A result of the network, in the order of the calls. `name`: its name as one, if it is to have another; returns it.
  std::string mark_output(const std::string& value, const std::string& name = {});

  /// Also of the graphs around. Throws Error(invalid_argument) for a name that is none of a value.
  const TensorType& type(const std::string& value);
  /// What an operator takes in this network's version of its domain. Throws Error(invalid_argument), which names
  /// similar operators, for one that Camshaft does not have.
  OperatorSchema schema(const std::string& domain, const std::string& op_type) const;
  size_t output_count() const { return graph_.outputs.size(); }

  /// The model, which shares the tensors' memory and keeps it. Throws Error(invalid_argument) for a sub-graph, and for
  /// a network without outputs.
  ModelProto model() const;

 private:
  struct Shared;
  Network(std::shared_ptr<Shared> shared, std::shared_ptr<Network> outer, const std::string& name);

  int64_t version(const std::string& domain) const;
  void check_free(const std::string& name) const;
  void check_arguments(const NetworkNode& node, const OperatorSchema& schema);
  std::string unique(const std::string& base) const;
  std::string given_types(const NetworkNode& node, const std::optional<OperatorSchema>& schema);

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Network> outer_;  ///< of a sub-graph
  GraphProto graph_;
  GraphUnderConstruction target_;
  Scope scope_;
  std::set<std::string> computed_;  ///< by nodes of this graph
  mutable bool is_used_ = false;    ///< as the body of a node
  friend GraphProto body_of(const Network& body, const Network& around);
};

/// The value of an attribute for a node of `around`. Throws Error(invalid_argument) unless create_subgraph() of
/// `around` made the body, and for one without outputs.
GraphProto body_of(const Network& body, const Network& around);

/// A type as text: "f32", of a tensor, with `sizes`; or as ONNX's schemas write it: "tensor(float)",
/// "seq(tensor(int64))", "optional(…)", "map(int64,tensor(float))"; sizes of elements may follow their type, as in
/// "seq(tensor(float)[2,?])". Throws Error(invalid_argument).
TypeProto parse_type(std::string_view text, const std::optional<std::vector<DimensionProto>>& sizes = {});

}  // namespace camshaft::onnx
