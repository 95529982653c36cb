// What ONNX has one operator for where the graph has several: a product and the addition behind it (Gemm), a scale and
// a shift of each channel (BatchNormalization), moves (joined_moves.h) and reductions (joined_reductions.h). Written as
// one again, models keep the nodes that they had. Activations are in activations.h, operators that a model had and that
// reading took apart in whole_nodes.h.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/graph.h"
#include "onnx/export/export_context.h"

namespace camshaft::onnx {

/// Of matrices of which ONNX has a Gemm that runtimes run.
bool is_gemm_type(DType dtype);

/// Nodes that are written as one. Reading it back gives the same nodes.
struct JoinedNodes {
  std::vector<size_t> nodes;  ///< of the graph, in their order
  bool is_at_first = false;   ///< written in place of the first of them, with the results of all; else of the last
  std::function<void(ExportContext& context)> write;
  std::vector<ValueId> results = {};  ///< what is written with them, where that is not all of the above
};

/// All of a graph, none with a node of another.
class JoinedNodesOf {
 public:
  /// `is_taken`: nodes that are written in another way; `whole`: what was found before, which comes first.
  JoinedNodesOf(const Graph& graph, const std::function<bool(size_t node)>& is_taken, std::vector<JoinedNodes> whole);
  /// What node n is part of; null: it is written by itself.
  const JoinedNodes* find(size_t n) const;

 private:
  void add(JoinedNodes joined);
  std::vector<JoinedNodes> all_;
  std::unordered_map<size_t, size_t> by_node_;
};

}  // namespace camshaft::onnx
