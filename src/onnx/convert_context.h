// What the converter of one ONNX node sees: attributes, inputs, and how to append operators to the graph.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"
#include "ir/ops/scalar_function.h"
#include "onnx/constant_finder.h"
#include "onnx/declared_type.h"
#include "onnx/named_tensors.h"
#include "onnx/proto.h"
#include "onnx/tensor_data.h"

namespace camshaft::onnx {

using Values = std::vector<ValueId>;

/// An Error whose message already names the node.
class NodeError : public Error {
 public:
  using Error::Error;
};

/// The graph under construction and what it is made with.
struct GraphUnderConstruction {
  GraphUnderConstruction(TensorReader& tensor_reader, NamedTensors& names)
      : tensors(tensor_reader), named(names), constants(graph) {}
  Graph graph;
  TensorReader& tensors;
  NamedTensors& named;
  ConstantFinder constants;
};

/// A sub-graph as a graph of its own.
struct Body {
  Graph graph;      ///< its inputs are those that were asked for, then one for each capture
  Values captures;  ///< values of the graph around
};

/// Converts the sub-graphs of a node.
class SubgraphImporter {
 public:
  virtual ~SubgraphImporter() = default;
  /// `label` tells the names of one sub-graph of the node from those of another. Constants of the graph around, and
  /// what is known of its shapes, become part of the body; other values that it reads are captures. Throws
  /// Error(invalid_model) when the sub-graph does not have as many inputs as `inputs`.
  virtual Body import(const GraphProto& subgraph, const std::string& label, const std::vector<TensorType>& inputs) = 0;
  /// Appends the nodes of a sub-graph to the graph around it, with `inputs` for its inputs; returns its outputs. Throws
  /// Error(invalid_model) when the sub-graph has another number of inputs.
  virtual Values inlined(const GraphProto& subgraph, const Values& inputs) = 0;
  /// A symbol for the size of input i of a sub-graph, which no other value has.
  virtual Dim fresh(const GraphProto& subgraph, const std::string& label, size_t input, size_t axis) = 0;
};

/// All failures are thrown as NodeError: what is wrong with the model as invalid_model, what is not implemented as
/// unsupported.
class ConvertContext {
 public:
  /// `source` is the node's name for people and `prefix` stands before the names of its values (inside functions).
  ConvertContext(GraphUnderConstruction& target, SubgraphImporter& subgraphs, const DeclaredTypes& declared,
                 const NodeProto& node, int64_t opset, std::string source, std::string prefix, Values inputs)
      : target_(target),
        subgraphs_(subgraphs),
        declared_(declared),
        node_(node),
        opset_(opset),
        source_(std::move(source)),
        prefix_(std::move(prefix)),
        inputs_(std::move(inputs)) {}

  const NodeProto& node() const { return node_; }
  /// The version of the operator set that the node's domain is read with.
  int64_t opset() const { return opset_; }
  [[noreturn]] void fail(ErrorCode code, const std::string& what) const;
  [[noreturn]] void invalid(const std::string& what) const { fail(ErrorCode::invalid_model, what); }
  [[noreturn]] void unsupported(const std::string& what) const { fail(ErrorCode::unsupported, what); }

  /// Another one for each collective of the model.
  int64_t number_collective() { return target_.named.number_collective(); }

  // Inputs.
  size_t input_count() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != no_value; }
  /// invalid_model when it is absent.
  ValueId input(size_t i) const;
  ValueId input_or_none(size_t i) const { return has(i) ? inputs_[i] : no_value; }
  /// All of a variadic operator's inputs; invalid_model when one is absent or there is none.
  const Values& all_inputs() const;

  // Values.
  // invalid_model for an input that is left out, and for an axis that the value does not have.
  const Shape& shape(ValueId id) const { return type(id).shape; }
  int64_t rank(ValueId id) const { return static_cast<int64_t>(shape(id).size()); }
  DType dtype(ValueId id) const { return type(id).dtype; }
  const Dim& dim(ValueId id, int64_t axis) const;
  const TensorType& type(ValueId id) const;
  /// The elements of a small integer tensor as expressions of the dims, if known.
  std::optional<std::vector<Dim>> content(ValueId id) const { return target_.constants.elements(id); }
  /// The elements of a small float tensor cut to integers, where they are sizes times simple numbers.
  std::optional<std::vector<Dim>> cut_to_sizes(ValueId id) const;
  /// The elements as numbers; unsupported, naming `what`, when they are not known before running.
  std::vector<int64_t> ints(ValueId id, std::string_view what) const;
  /// The value if it is a constant or computed from constants alone, else null.
  std::shared_ptr<const Tensor> constant(ValueId id) const { return target_.constants.find(id).tensor; }
  /// Whether it is one of these, without reading its numbers: a refit may still replace them.
  bool is_constant(ValueId id) const;
  /// The value with where it comes from; without a tensor where that would be null.
  Constant traced_constant(ValueId id) const { return target_.constants.find(id); }
  /// For evaluating operators on small constants.
  ThreadPool& constant_pool() const { return target_.constants.pool(); }
  /// A size as a number; unsupported, naming `what`, when it is symbolic.
  int64_t static_size(const Dim& d, std::string_view what) const;

  // Attributes: the given default when absent; invalid_model when the type is another.
  bool has_attribute(std::string_view name) const { return node_.find_attribute(name) != nullptr; }
  int64_t int_attribute(std::string_view name, std::optional<int64_t> otherwise = std::nullopt) const;
  double float_attribute(std::string_view name, std::optional<double> otherwise = std::nullopt) const;
  std::string string_attribute(std::string_view name, std::optional<std::string> otherwise = std::nullopt) const;
  std::optional<std::vector<int64_t>> ints_attribute(std::string_view name) const;
  std::optional<std::vector<double>> floats_attribute(std::string_view name) const;
  std::optional<Tensor> tensor_attribute(std::string_view name) const;
  const AttributeProto* attribute(std::string_view name, AttributeType type) const;
  /// Attributes that say the same as an input of later operator sets: the attribute's ints, or the input's elements,
  /// or nothing.
  std::optional<std::vector<int64_t>> ints_from(std::string_view attribute_name, size_t input_index) const;
  /// Counts a negative axis from the end; invalid_model when it does not exist.
  int64_t axis(int64_t axis, int64_t rank) const;
  std::vector<int64_t> axes(std::vector<int64_t> axes, int64_t rank) const;

  // Sub-graphs.
  /// invalid_model when the node has no sub-graph of that name.
  const GraphProto& graph_attribute(std::string_view name) const;
  SubgraphImporter& subgraphs() const { return subgraphs_; }

  // Outputs.
  size_t output_count() const { return node_.outputs.size(); }
  bool uses_output(size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  /// What the model declares of output i; null where it declares nothing. Trusted only where nothing else tells.
  const TypeProto* declared_type(size_t i) const;
  /// The number of axes that it declares; -1 where it declares none.
  int64_t declared_rank(size_t i) const;
  /// The number of axes that the model declares for output i, where `what`, known only when running, decides it;
  /// unsupported, with the way out, when it declares none.
  int64_t declared_rank(size_t i, std::string_view what) const;
  /// Appends an operator whose output is inner to the node.
  ValueId add(Op op, Values inputs);
  ValueId add(ScalarFunction function, Values inputs);
  /// Of an operator with `outputs` results.
  Values add_all(Op op, Values inputs, size_t outputs);
  Values add_all(Op op, Values inputs, const std::vector<std::string>& names);
  /// Appends an operator that computes output i of the node, and has its name.
  ValueId result_at(size_t i, Op op, Values inputs);
  /// … or these outputs, with several results.
  Values results_at(const std::vector<size_t>& outputs, Op op, Values inputs);
  /// Appends an operator with all of the node's outputs, and with bodies.
  Values results(Op op, Values inputs, std::vector<Graph> bodies);
  /// The node that computes a value; null for inputs and constants. Valid until the next one is appended.
  const Node* producer(ValueId id) const { return target_.constants.producer(id); }
  /// The usual end of a converter: the one output.
  Values result(Op op, Values inputs) { return {result_at(0, std::move(op), std::move(inputs))}; }
  Values result(ScalarFunction function, Values inputs);
  /// One that stems from attributes and sizes alone, …
  ValueId add_constant(Tensor tensor);
  /// … one that is made of others, …
  ValueId add_constant(Constant constant);
  /// … and the output of the node as a tensor that the model names.
  ValueId add_named_constant(Tensor tensor);
  /// A number to compute with beside a value of that dtype; invalid_model for dtypes that hold no numbers.
  ValueId scalar(DType dtype, double value);
  /// `id` in another shape of as many elements; `id` itself when it has that shape.
  ValueId reshape(ValueId id, Shape shape);
  ValueId cast(ValueId id, DType to);
  /// f32 for f16 and bf16, whose range and digits do not last for several steps; other dtypes as they are.
  ValueId widened(ValueId id);
  /// A symbol for a size that only running tells, named after output i.
  Dim fresh(size_t i, size_t axis) const;

  Graph& graph() { return target_.graph; }
  const Graph& graph() const { return target_.graph; }
  TensorReader& tensors() const { return target_.tensors; }

 private:
  std::string output_name(size_t i) const;
  ValueId append(Op op, Values inputs, const std::string& name);
  Values append_node(Op op, Values inputs, const std::vector<std::string>& names, std::vector<Graph> bodies);

  GraphUnderConstruction& target_;
  SubgraphImporter& subgraphs_;
  const DeclaredTypes& declared_;
  const NodeProto& node_;
  int64_t opset_;
  std::string source_;
  std::string prefix_;
  Values inputs_;
};

/// The product of dims [begin, end).
Dim product(const Shape& shape, int64_t begin, int64_t end);
inline Dim product(const Shape& shape) {
  return product(shape, 0, static_cast<int64_t>(shape.size()));
}

}  // namespace camshaft::onnx
