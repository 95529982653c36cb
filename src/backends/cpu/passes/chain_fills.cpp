#include "backends/cpu/passes/chain_fills.h"

#include <algorithm>
#include <map>

#include "ir/ops/index.h"
#include "ir/ops/move.h"
#include "optimize/edit/chain_nodes.h"

namespace camshaft {

namespace {

bool assigns(const Node& node, DType dtype) {
  if (holds_objects(dtype) || bit_width(dtype) < 8 || bit_width(dtype) > 64) return false;
  const auto* elements = node.op.as<ops::ScatterElements>();
  const auto* slices = node.op.as<ops::ScatterND>();
  return (elements && elements->kind == ops::ScatterKind::assign) ||
         (slices && slices->kind == ops::ScatterKind::assign);
}

}  // namespace

void chain_fills(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  std::map<int32_t, std::vector<int32_t>> chains;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    const Node& scatter = graph.nodes[static_cast<size_t>(n)];
    if (scatter.inputs.empty() || scatter.inputs[0] == no_value) continue;
    const ValueId base = scatter.inputs[0];
    const int32_t before = uses.producer[static_cast<size_t>(base)];
    if (before < 0 || !assigns(scatter, graph.type(base).dtype)) continue;
    const Node& fill = graph.nodes[static_cast<size_t>(before)];
    if (!fill.op.as<ops::Expand>() || fill.inputs.size() != 1 || !uses.single(base)) continue;
    const Shape& element = graph.shape(fill.inputs[0]);
    if (std::all_of(element.begin(), element.end(), [](const Dim& d) { return d == Dim(1); })) chains[n] = {before, n};
  }
  make_chains(graph, chains);
}

}  // namespace camshaft
