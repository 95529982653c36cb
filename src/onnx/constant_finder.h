// Values that are constants, or become constants when their producers are evaluated.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"

namespace camshaft::onnx {

/// Models often compute small constants (a Resize's scales out of Concat and Cast) where a converter needs the number.
/// This evaluates just what is asked for; folding the rest is a pass.
class ConstantFinder {
 public:
  /// `graph` may grow while this lives; nodes are only appended.
  explicit ConstantFinder(const Graph& graph) : graph_(graph), pool_(1) {}

  /// Without a tensor when the value depends on an input, or has more than 2^20 elements without being a constant of
  /// the graph.
  Constant find(ValueId id);
  /// The elements of an integer tensor of any rank as expressions of the dims, row-major: its content, its constant, or
  /// what operators that only move elements make of those. (Exporters reverse a list of pads as a matrix.)
  std::optional<std::vector<Dim>> elements(ValueId id);
  /// The node that computes a value, or null. Valid until a node is appended.
  const Node* producer(ValueId id);
  /// What constants are evaluated on.
  ThreadPool& pool() { return pool_; }

 private:
  void note_new_nodes();
  std::optional<std::vector<Dim>> elements(ValueId id, int depth);
  std::optional<std::vector<Dim>> find_elements(ValueId id, int depth);
  Constant evaluate(const Node& node, ValueId id, int depth);
  Constant find(ValueId id, int depth);
  Provenance::Pointer origin_of_content(ValueId id, int depth);

  const Graph& graph_;
  ThreadPool pool_;
  size_t nodes_seen_ = 0;
  std::unordered_map<ValueId, size_t> producer_;
  std::unordered_map<ValueId, Constant> found_;
  std::unordered_map<ValueId, Provenance::Pointer> origins_;
  std::unordered_map<ValueId, std::optional<std::vector<Dim>>> elements_;
};

}  // namespace camshaft::onnx
