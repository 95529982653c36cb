#include "optimize/precision/allow_rounding.h"

#include "ir/ops/attention.h"
#include "ir/ops/contract.h"
#include "ir/ops/region.h"

namespace camshaft {

namespace {

template <class Product>
bool mark(Op& op, ops::Rounding rounding) {
  const auto* product = op.as<Product>();
  if (!product) return false;
  Product marked = *product;
  marked.rounding = rounding;
  op = marked;
  return true;
}

void mark_all(Graph& graph, ops::Rounding rounding, const PrecisionRules* rules) {
  for (Node& node : graph.nodes) {
    if (rules && rounding == ops::Rounding::bf16 && !rules->allows(node.sources, LayerPrecision::bf16)) continue;
    if (node.op.as<ops::Region>()) mark_all(node.bodies[0], rounding, nullptr);
    if (node.inputs.empty() || node.inputs[0] == no_value || graph.type(node.inputs[0]).dtype != DType::f32) continue;
    if (mark<ops::MatMul>(node.op, rounding) || mark<ops::Conv>(node.op, rounding)) continue;
    if (rounding == ops::Rounding::bf16) mark<ops::Attention>(node.op, rounding);  // no kernel rounds to TF32
  }
}

}  // namespace

void allow_rounding(Graph& graph, const PassContext& context) {
  if (context.rounding != ops::Rounding::none) mark_all(graph, context.rounding, context.rules);
}

}  // namespace camshaft
