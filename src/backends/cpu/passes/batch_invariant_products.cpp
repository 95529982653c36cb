#include "backends/cpu/passes/batch_invariant_products.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/paged.h"

namespace camshaft {

namespace {

bool attends_over_blocks(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.op.as<ops::PagedAttention>() ||
           std::any_of(node.bodies.begin(), node.bodies.end(), attends_over_blocks);
  });
}

void mark_all(Graph& graph) {
  for (Node& node : graph.nodes) {
    for (Graph& body : node.bodies) mark_all(body);
    if (const auto* product = node.op.as<ops::MatMul>()) {
      ops::MatMul marked = *product;
      marked.batch_invariant = true;
      node.op = marked;
    }
  }
}

}  // namespace

void batch_invariant_products(Graph& graph, const PassContext&) {
  if (attends_over_blocks(graph)) mark_all(graph);
}

}  // namespace camshaft
