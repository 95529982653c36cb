// What the exporter of one operator sees: the node, its operands by name, and how to append ONNX nodes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "onnx/export/export_writer.h"

namespace camshaft::onnx {

/// A graph of the IR as it is written: the names that its values have.
struct GraphUnderExport {
  const Graph& graph;
  ExportWriter& writer;
  std::vector<std::string> names;  ///< by value; empty: not written yet
};

/// Writes the body of a node as a graph. The first `inputs` of its inputs become inputs of it; the others are known by
/// the names given in `captures`.
using BodyExporter = std::function<GraphProto(const Graph& body, size_t inputs,
                                              const std::vector<std::string>& captures, ExportWriter& around)>;

class ExportContext {
 public:
  ExportContext(GraphUnderExport& target, const Node& node, const BodyExporter& body_exporter)
      : target_(target), node_(node), export_body_(body_exporter) {}

  const Node& node() const { return node_; }
  /// Throws Error(unsupported) that names the node and the operator.
  [[noreturn]] void unsupported(const std::string& what) const;

  // Operands.
  size_t input_count() const { return node_.inputs.size(); }
  bool has(size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != no_value; }
  /// Empty where it is left out.
  std::string input(size_t i) { return has(i) ? value(node_.inputs[i]) : std::string(); }
  /// The name of a value that is computed before the node.
  std::string value(ValueId id);
  /// All of them from the `first` on.
  std::vector<std::string> inputs(size_t first = 0);
  const TensorType& type(size_t i) const { return target_.graph.type(node_.inputs[i]); }
  DType dtype(size_t i) const { return type(i).dtype; }
  const Shape& shape(size_t i) const { return type(i).shape; }
  int64_t rank(size_t i) const { return static_cast<int64_t>(shape(i).size()); }
  /// Null where it is no constant.
  const Tensor* constant_input(size_t i) const;

  /// An operand of i32 or i64 where ONNX takes i64 alone.
  std::string indices(size_t i) { return has(i) && dtype(i) == DType::i32 ? cast(input(i), DType::i64) : input(i); }

  // Results.
  size_t output_count() const { return node_.outputs.size(); }
  const TensorType& result_type(size_t i = 0) const { return target_.graph.type(node_.outputs[i]); }
  std::string output(size_t i) const { return target_.names[static_cast<size_t>(node_.outputs[i])]; }
  /// The name of the result of another node of the graph, which is written with this one.
  std::string output_of(size_t node) const {
    return target_.names[static_cast<size_t>(target_.graph.nodes[node].outputs[0])];
  }

  // Nodes.
  /// Appends a node that computes an inner value.
  std::string add(const Operator& op, std::vector<std::string> inputs, Attributes attributes = {});
  /// Appends the node that computes all results.
  void result(const Operator& op, std::vector<std::string> inputs, Attributes attributes = {});
  /// Appends a node whose outputs are these: of results and inner values, or left out.
  void add_named(const Operator& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                 Attributes attributes = {});
  /// A name for an output that nothing reads.
  std::string unused_name();

  // Constants and sizes.
  std::string constant(const Tensor& value) { return target_.writer.constant(value); }
  std::string ints(const std::vector<int64_t>& values) { return constant(Tensor::from_ints(values)); }
  std::string number(DType dtype, double value) { return constant(Tensor::scalar(dtype, value)); }
  std::string integer(int64_t value) { return constant(Tensor::of<int64_t>(DType::i64, {}, {value})); }
  std::string sizes(const Shape& dims) { return target_.writer.sizes(dims); }
  TensorProto tensor(const Tensor& value) { return target_.writer.model.tensor("", value); }
  /// A size as a number where it is one; unsupported, naming `what`, where it is not.
  int64_t fixed(const Dim& dim, const char* what) const;
  std::vector<int64_t> fixed(const Shape& dims, const char* what) const;

  // Moves.
  std::string cast(const std::string& value, DType to);
  std::string transpose(const std::string& value, const std::vector<int64_t>& permutation);
  /// `value`, of shape `from`, in the shape `to`.
  std::string reshape(const std::string& value, const Shape& from, const Shape& to);
  /// `value` broadcast to `to`.
  std::string expand(const std::string& value, const Shape& from, const Shape& to);
  /// The first operand with its channels first, where the operator has them last.
  std::string channels_first(size_t i, bool channels_last);
  /// Appends the node that computes the result, with its channels brought where they belong.
  void spatial_result(const Operator& op, std::vector<std::string> inputs, Attributes attributes, bool channels_last);

  /// A body of the node as a graph: its first inputs are inputs of it, the others are captured from the node's operands
  /// from `first_capture` on.
  GraphProto body(size_t i, size_t inputs, size_t first_capture);

  ExportWriter& writer() { return target_.writer; }

 private:
  GraphUnderExport& target_;
  const Node& node_;
  const BodyExporter& export_body_;
};

/// The second operand of an ONNX Reshape that makes `to` of `from`: sizes that stay are 0 and one that is left is -1,
/// where these mean the same for every size; else all are expressions, and a 0 is a size (attribute allowzero).
struct ReshapeTarget {
  Shape sizes;
  bool allow_zero = false;
};
ReshapeTarget reshape_target(const Shape& from, const Shape& to);

}  // namespace camshaft::onnx
