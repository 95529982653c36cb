// The usual way for a pass to change a graph: walk the nodes in order, keep, replace or drop each.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// Takes the nodes out of a graph and lets the caller append them again one by one. Uses of replaced values are renamed
/// on the way, so a rewrite sees its inputs as earlier rewrites left them.
///
///   Rewriter rewriter(graph);
///   for (Node& node : rewriter.nodes()) {
///     if (…) rewriter.replace(node.outputs[0], graph.add(…));  // node itself is dropped
///     else rewriter.keep(std::move(node));
///   }
///   rewriter.finish();
class Rewriter {
 public:
  explicit Rewriter(Graph& graph);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  /// The original nodes. Call resolve() (or keep()) before looking at the inputs of one.
  std::vector<Node>& nodes() { return old_nodes_; }
  /// Renames the inputs of a node according to the replacements so far.
  void resolve(Node& node) const;
  ValueId resolve(ValueId id) const;
  /// Appends the node as it is, with inputs resolved and its shape rule run again if any input's type changed.
  void keep(Node&& node);
  /// From here on, uses of `old` read `replacement`. The first value that a replacement added since the rewriter was
  /// made takes the place of gives it its name: tensors keep the names that the model gave them, which debug tensors
  /// and calibrations go by.
  void replace(ValueId old, ValueId replacement);
  /// The whole walk, for passes that put one value in the place of a node's only result: `replacement(node)` gives it,
  /// or no_value to keep the node, whose inputs are resolved. It may also take the inputs as they were.
  template <class F>
  void replace_each(F&& replacement) {
    for (Node& node : old_nodes_) {
      ValueId value = no_value;
      if constexpr (std::is_invocable_v<F, const Node&, const std::vector<ValueId>&>) {
        const std::vector<ValueId> old_inputs = node.inputs;
        resolve(node);
        value = replacement(std::as_const(node), old_inputs);
      } else {
        resolve(node);
        value = replacement(std::as_const(node));
      }
      if (value != no_value) {
        replace(node.outputs[0], value);
      } else {
        keep(std::move(node));
      }
    }
    finish();
  }
  bool changed() const { return changed_; }
  /// Redirects graph outputs, removes dead nodes. Must be called once, at the end.
  void finish();

 private:
  void take_name(ValueId old, ValueId replacement);

  Graph& graph_;
  std::vector<Node> old_nodes_;
  std::vector<ValueId> replacement_;
  std::vector<bool> retyped_;  // values whose type or content a rewrite changed: their readers are inferred again
  bool changed_ = false;
  size_t old_values_ = 0;          // how many the graph had before
  std::vector<bool> took_a_name_;  // of values added since
};

}  // namespace camshaft
