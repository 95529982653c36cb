#include "backends/cuda/passes/reshape_behind_product.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/region.h"
#include "ir/region_editor.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

class ReshapeExchanger {
 public:
  explicit ReshapeExchanger(Graph& graph) : graph_(graph), rewriter_(graph), producers_(graph) {}

  void run() {
    rewriter_.replace_each([&](const Node& node) {
      const ValueId rows = rows_of(node);
      if (rows == no_value) return no_value;
      const Shape seen = graph_.shape(node.outputs[0]);
      const std::string name = graph_.value(node.outputs[0]).name;
      const ValueId product = rebuilt(node, rows);
      return graph_.add(ops::Reshape{seen}, {product}, name, node.sources);
    });
  }

 private:
  // The product that a node begins with; null where it is none that can be rebuilt.
  static const Node* product_of(const Node& node) {
    if (node.outputs.size() != 1) return nullptr;
    if (node.op.as<ops::MatMul>()) return &node;
    const auto* region = node.op.as<ops::Region>();
    if (!region || region->kind != ops::RegionKind::contract || node.bodies.size() != 1) return nullptr;
    const Graph& body = node.bodies[0];
    if (body.nodes.empty() || !body.nodes[0].op.as<ops::MatMul>()) return nullptr;
    const bool is_pointwise = std::all_of(body.nodes.begin() + 1, body.nodes.end(), [](const Node& n) {
      return n.op.as<ops::Pointwise>() || n.op.as<ops::Cast>();
    });
    return is_pointwise ? &body.nodes[0] : nullptr;
  }

  // Normed rows, as they are before they are seen in the shape that the product takes; no_value: leave the node alone.
  ValueId rows_of(const Node& node) {
    const Node* product = product_of(node);
    if (!product || product->op.as<ops::MatMul>()->transpose_a) return no_value;
    const ValueId a = outer_operand(node, product->inputs[0]), weights = outer_operand(node, product->inputs[1]);
    if (a == no_value || a == weights || !graph_.is_constant(weights) || graph_.shape(weights).size() != 2 ||
        !producers_.op<ops::Reshape>(a))
      return no_value;
    const ValueId rows = producers_.find(a)->inputs[0];
    const Shape &before = graph_.shape(rows), &after = graph_.shape(a);
    if (!producers_.op<ops::LayerNorm>(rows) || before.size() < 2 || after.size() < 2 || before.back() != after.back())
      return no_value;
    if (std::count(node.inputs.begin(), node.inputs.end(), a) != 1) return no_value;
    for (const ValueId id : node.inputs)
      if (id != a && id != weights && graph_.shape(id).size() > 1) return no_value;
    return rows;
  }

  // The node with `rows` in the place of what they were seen as.
  ValueId rebuilt(const Node& node, ValueId rows) {
    const std::string& name = graph_.value(node.outputs[0]).name;
    if (node.bodies.empty()) return graph_.add(node.op, {rows, node.inputs[1]}, name, node.sources);
    RegionEditor product(graph_, node);
    product.replace_operand(outer_operand(node, first_operator(node).inputs[0]), rows);
    product.renew_results();
    return product.append()[0];
  }

  Graph& graph_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void reshape_behind_product(Graph& graph, const PassContext&) {
  ReshapeExchanger(graph).run();
}

}  // namespace camshaft
