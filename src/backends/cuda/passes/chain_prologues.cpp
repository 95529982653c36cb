#include "backends/cuda/passes/chain_prologues.h"

#include <algorithm>
#include <map>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "ir/ops/weight_only.h"
#include "ir/region.h"
#include "optimize/edit/chain_nodes.h"

namespace camshaft {

namespace {

bool gives_rows(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  return node.outputs.size() == 1 &&
         (region ? region->kind == ops::RegionKind::pointwise : node.op.as<ops::Pointwise>() != nullptr);
}

// A product of the rows of x with constant weights: of 16 bits, or few.
bool takes_rows(const Graph& graph, const Node& node, ValueId x) {
  const Node& first = first_operator(node);
  if (first.inputs.size() < 2 || node.inputs[0] != x || sole_operand(node, 0) != x ||
      std::count(node.inputs.begin(), node.inputs.end(), x) != 1)
    return false;
  const ValueId weights = sole_operand(node, 1);
  if (weights == no_value || !graph.is_constant(weights)) return false;
  if (first.op.as<ops::WeightOnlyMatMul>()) return true;
  const auto* product = first.op.as<ops::MatMul>();
  const DType dtype = graph.type(weights).dtype;
  return product && !product->transpose_a && graph.shape(weights).size() == 2 &&
         (dtype == DType::f16 || dtype == DType::bf16);
}

// Rows of which kernels that read weights once take several times as many, and no more.
bool may_be_few(const Shape& shape) {
  constexpr int64_t most = 64;
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < shape.size(); ++d) {
    const auto size = shape[d].as_constant();
    if (size) rows = std::min(rows, most) * std::min(*size, most + 1);
  }
  return rows <= most;
}

}  // namespace

void chain_prologues(Graph& graph, const PassContext& /*context*/) {
  remove_dead(graph);
  const Uses uses(graph);
  const auto node = [&](int32_t n) -> const Node& { return graph.nodes[static_cast<size_t>(n)]; };
  std::map<int32_t, std::vector<int32_t>> chains;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    if (!gives_rows(node(n))) continue;
    const ValueId rows = node(n).outputs[0];
    if (!uses.single(rows) || graph.shape(rows).size() < 2 || !may_be_few(graph.shape(rows))) continue;
    const int32_t product = uses.readers[static_cast<size_t>(rows)][0];
    if (takes_rows(graph, node(product), rows)) chains[product] = {n, product};
  }
  make_chains(graph, chains);
}

}  // namespace camshaft
