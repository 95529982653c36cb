#include "backends/cuda/passes/steps_behind_products.h"

#include "backends/cuda/passes/quantises.h"
#include "ir/ops/contract.h"
#include "ir/region.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

bool is_product(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  if (node.outputs.size() != 1 || (region && region->kind != ops::RegionKind::contract)) return false;
  const Op& op = first_operator(node).op;
  return op.as<ops::MatMul>() || op.as<ops::Conv>();
}

// The product, then what the other node does, in the place of that.
Node joined(Graph& graph, const Node& product, const Node& last) {
  RegionEditor made = RegionEditor::around(graph, product, ops::RegionKind::contract);
  const ValueId between = product.outputs[0];
  const ValueId steps = append_steps(made, graph, last, made.inner_result(between));
  made.move_result(between, last.outputs[0]);
  made.replace_result(last.outputs[0], steps);
  made.set_sources(merged_sources(product.sources, last.sources));
  return made.finish();
}

}  // namespace

void steps_behind_products(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  bool changed = false;
  for (Node& node : graph.nodes) {
    if (!quantises(graph, node)) continue;
    const int32_t p = uses.producer[static_cast<size_t>(node.inputs[0])];
    if (p < 0 || !uses.single(node.inputs[0]) || !is_product(graph.nodes[static_cast<size_t>(p)])) continue;
    node = joined(graph, graph.nodes[static_cast<size_t>(p)], node);
    changed = true;
  }
  if (changed) remove_dead(graph);  // the products alone, which nobody reads
}

}  // namespace camshaft
