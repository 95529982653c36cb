#include "optimize/allow_tf32.h"

#include "ops/contract.h"
#include "ops/region.h"

namespace camshaft {

namespace {

template <class Product>
bool mark(Op& op) {
  const auto* product = op.as<Product>();
  if (!product) return false;
  Product marked = *product;
  marked.tf32 = true;
  op = marked;
  return true;
}

void mark_all(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (node.op.as<ops::Region>()) mark_all(node.bodies[0]);
    if (node.inputs.empty() || node.inputs[0] == no_value || graph.type(node.inputs[0]).dtype != DType::f32) continue;
    if (!mark<ops::MatMul>(node.op)) mark<ops::Conv>(node.op);
  }
}

}  // namespace

void allow_tf32(Graph& graph, const PassContext& context) {
  if (context.tf32) mark_all(graph);
}

}  // namespace camshaft
