// The one way to make and to change a region: a node whose body's inputs are its operands, and whose body's outputs are
// its results.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/ops/region.h"

namespace camshaft {

/// Keeps a body and what stands around it in step. Values of the body are called inner, those of the graph outer.
///
///   RegionEditor editor(graph, std::move(node));
///   editor.replace_operand(image, wider_image);
///   editor.set_operator(0, wider_convolution);
///   node = editor.finish();
///
/// The graph around it gets nothing but the types of changed results and the values of new ones, and these only by
/// finish(): an editor that is given up leaves no trace. Whoever reads a result whose type has changed is for the
/// caller to infer again. Misuse (a value that is no operand, an operand that is dropped and still read) throws
/// Error(internal); a shape rule that fails, Error(invalid_model).
class RegionEditor {
 public:
  /// A new region, with nothing in it.
  RegionEditor(Graph& graph, ops::RegionKind kind);
  /// A region as it is. Throws Error(internal) for a node that is none.
  RegionEditor(Graph& graph, Node region);
  /// A copy of a region, or for any other node a new region of this kind around a copy of it, under the same names.
  static RegionEditor around(Graph& graph, const Node& node, ops::RegionKind kind);

  const Graph& body() const { return body_; }

  // --- operands: outer values and the body's inputs ---

  /// The operand that an input of the body is; no_value for what is no input.
  ValueId outer(ValueId inner) const;
  /// The body's input that is this operand, the first if it is one several times; no_value where it is none.
  ValueId inner(ValueId outer) const;
  /// The body's input for an operand, which is added where it is none yet: under the outer value's name, unless another
  /// one is given.
  ValueId add_operand(ValueId outer, const std::string& name = "");
  /// Reads another value in the place of an operand. The input keeps its id and takes the other's name and type.
  void replace_operand(ValueId outer, ValueId now);
  /// Nothing in the body may read it any more.
  void drop_operand(ValueId outer);

  // --- nodes of the body ---

  /// As Graph::add_node() and so on, at the body's end.
  std::vector<ValueId> add_node(Op op, std::vector<ValueId> inputs, const std::vector<std::string>& names,
                                std::vector<std::string> sources = {}, std::vector<Graph> bodies = {});
  ValueId add(Op op, std::vector<ValueId> inputs, const std::string& name, std::vector<std::string> sources = {});
  ValueId add_constant(const std::string& name, Tensor tensor);
  ValueId add_constant(const std::string& name, Constant constant);
  /// Appends a node of another graph under the same names. `there` has the inner value for each of that graph that the
  /// node reads; constants that are not in it yet are added, and so is what the node computes. Returns its outputs.
  std::vector<ValueId> copy_node(const Graph& from, const Node& node, std::map<ValueId, ValueId>& there);
  /// Puts an operator of one operand, an input of the body, before all other nodes: what has read the input reads its
  /// result, which is returned.
  ValueId prepend(Op op, ValueId input, const std::string& name);
  /// Another operator for the body's node `n`, with the same operands. Types follow in finish().
  void set_operator(size_t n, Op op);
  /// Removes nodes whose outputs nobody reads, then values nobody names. Inner ids change.
  void remove_dead();

  // --- results: the body's outputs and outer values ---

  /// The inner value that a result is; no_value where the outer value is none.
  ValueId inner_result(ValueId outer) const;
  /// A result that is a value of the graph already; the body's output is called as that one is, or by `name`.
  void add_result(ValueId outer, ValueId inner, const std::string& name = "");
  /// A result that finish() makes a value of, called `outer_name` (made unique).
  void add_new_result(const std::string& outer_name, ValueId inner, const std::string& name = "");
  /// Gives another inner value as this result, whose type becomes that one's.
  void replace_result(ValueId outer, ValueId inner);
  /// Gives what this result was as another value of the graph.
  void move_result(ValueId outer, ValueId now);
  /// All results become new values under the names of those that they were.
  void renew_results();
  /// No longer gives this result. At least one must be left.
  void drop_result(ValueId outer);

  // --- the node ---

  void set_sources(std::vector<std::string> sources) { sources_ = std::move(sources); }
  /// The region as a node. Inputs of the body take the types that the operands have by now, and where one has changed,
  /// or an operator, the shape rules are run again. To be called once, at the end.
  Node finish();
  /// finish(), and the node goes to the end of the graph. Returns its outputs.
  std::vector<ValueId> append();

 private:
  struct Result {
    ValueId outer = no_value;  // no_value: made by finish(),
    std::string name;          // called so
  };
  size_t operand_index(ValueId outer) const;
  size_t result_index(ValueId outer) const;
  void take_operand_types();
  void infer_again();

  Graph& graph_;
  ops::RegionKind kind_;
  std::vector<std::string> sources_;
  Graph body_;
  std::vector<ValueId> operands_;  // one for each of the body's inputs
  std::vector<Result> results_;    // one for each of its outputs
  bool changed_ = false;           // types may not be what the shape rules give
  bool dropped_ = false;           // values are there that nobody reads
};

}  // namespace camshaft
