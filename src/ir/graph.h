// The intermediate representation: values and nodes in topological order.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/op.h"
#include "ir/provenance.h"

namespace camshaft {

/// Index into Graph::values.
using ValueId = int32_t;
constexpr ValueId no_value = -1;  ///< an omitted optional input

/// A tensor in a graph: an input, a constant or a node's output.
struct Value {
  std::string name;  ///< unique within its graph
  TensorType type;
  std::shared_ptr<const Tensor> constant;   ///< of constants
  std::optional<std::vector<Dim>> content;  ///< see Inferred; also set for small integer constants
  /// Of constants: where they come from; null for those that stem from no initializer.
  std::shared_ptr<const Provenance> provenance = {};
};

/// An operator applied to values.
struct Node {
  Op op;
  std::vector<ValueId> inputs;       ///< no_value for omitted optional inputs
  std::vector<ValueId> outputs;      ///< every output has a value, used or not
  std::vector<Graph> bodies;         ///< of regions and control flow; closed: what they capture is passed as inputs
  std::vector<std::string> sources;  ///< names of the model's nodes that this one came from
};

/// A dataflow graph. Passes usually build a new node list in order; see Rewriter in ir/rewriter.h.
class Graph {
 public:
  std::vector<Value> values;
  std::vector<Node> nodes;  ///< topological order
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<std::string> output_names;  ///< of the interface; a value may be several outputs under several names
  std::string name;

  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  const TensorType& type(ValueId id) const { return value(id).type; }
  const Shape& shape(ValueId id) const { return value(id).type.shape; }
  bool is_constant(ValueId id) const { return id != no_value && value(id).constant != nullptr; }
  /// The constant that a value is, and where it comes from: what is put into another graph, or made into another one
  /// (see reference/derived_constant.h). Of no_value, an omitted operand.
  Constant constant(ValueId id) const {
    return id == no_value ? Constant{} : Constant{value(id).constant, value(id).provenance};
  }

  void add_output(const std::string& output_name, ValueId id);
  ValueId add_input(const std::string& name, TensorType type);
  ValueId add_constant(const std::string& name, Constant constant);
  /// One that stems from no initializer. What is made of other constants is a derived one and says so.
  ValueId add_constant(const std::string& name, Tensor tensor);
  /// Appends a node, runs its shape rule, and returns its outputs. `names` gives the outputs' names (made unique; their
  /// number is the number of outputs, at least one). A failing rule throws Error(invalid_model) naming the sources and
  /// leaves the graph as it was.
  std::vector<ValueId> add_node(Op op, std::vector<ValueId> inputs, const std::vector<std::string>& names,
                                std::vector<std::string> sources = {}, std::vector<Graph> bodies = {});
  /// The usual case of one output.
  ValueId add(Op op, std::vector<ValueId> inputs, const std::string& name, std::vector<std::string> sources = {});

  /// A name that no value has yet: `base`, or `base` with a number behind it.
  std::string unique_name(const std::string& base);
  /// Gives a value the name `base`, made unique.
  void rename(ValueId id, const std::string& base);

 private:
  // Of all values ever added, with the number to try next behind each: a model of ten thousand equal names would
  // otherwise count through them anew for every value.
  std::unordered_map<std::string, int> names_;
};

/// What no value may be, or empty: a tensor of more than most_tensor_elements by the sizes that are known, zeros left
/// aside; or one of more axes than any operator makes of a model's (some of them recurse over axes).
std::string too_large(const TensorType& type);
/// Runs the shape rule of a node against a graph's values.
std::vector<Inferred> infer(const Graph& graph, const Node& node);
/// The integer elements of a constant of rank 0 or 1 with at most 4096 elements; nullopt for any other.
std::optional<std::vector<Dim>> constant_content(const Tensor& tensor);

/// For each value, the indices of the nodes that read it (once per use), plus uses as graph outputs.
struct Uses {
  explicit Uses(const Graph& graph);
  std::vector<std::vector<int32_t>> readers;
  std::vector<int32_t> producer;  ///< node index, or -1
  std::vector<bool> is_output;
  /// Read by exactly one node, once, and not an output of the graph.
  bool single(ValueId id) const {
    return readers[static_cast<size_t>(id)].size() == 1 && !is_output[static_cast<size_t>(id)];
  }
};

/// Removes nodes whose outputs nobody reads, then values nobody names; bodies are left alone. Ids change.
void remove_dead(Graph& graph);

/// Structural equality: the same nodes, operators, types and constants in the same order; names of inner values and
/// sources and where constants come from do not count, names of inputs and outputs do.
bool equal(const Graph& a, const Graph& b);

}  // namespace camshaft
