#include "backends/cpu/passes/chain_norms.h"

#include <map>

#include "backends/cpu/kernels/reduce/narrow_rows.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "optimize/edit/chain_nodes.h"

namespace camshaft {

namespace {

bool is_narrow(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

// One result of f32, of pointwise operators alone.
bool is_computed(const Graph& graph, const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  return (node.op.as<ops::Pointwise>() || (region && region->kind == ops::RegionKind::pointwise)) &&
         node.outputs.size() == 1 && graph.type(node.outputs[0]).dtype == DType::f32;
}

bool has_short_rows(const Graph& graph, const Node& norm) {
  const Shape& x = graph.shape(norm.inputs[0]);
  int64_t length = 1;
  for (auto d = static_cast<size_t>(norm.op.as<ops::LayerNorm>()->axis); d < x.size(); ++d) {
    const auto size = x[d].as_constant();
    if (!size || *size > cpu::NarrowRows::longest) return false;
    length *= *size;
    if (length > cpu::NarrowRows::longest) return false;
  }
  return true;
}

}  // namespace

void chain_norms(Graph& graph, const PassContext&) {
  const Uses uses(graph);
  std::map<int32_t, std::vector<int32_t>> chains;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    const Node& norm = graph.nodes[static_cast<size_t>(n)];
    if (!norm.op.as<ops::LayerNorm>() || norm.outputs.size() != 1) continue;
    const ValueId x = norm.inputs[0], y = norm.outputs[0];
    const int32_t before = uses.single(x) ? uses.producer[static_cast<size_t>(x)] : -1;
    if (before >= 0 && is_computed(graph, graph.nodes[static_cast<size_t>(before)])) {
      chains[n] = {before, n};
      continue;
    }
    if (!has_short_rows(graph, norm)) continue;
    std::vector<int32_t> chain;
    if (before >= 0) {
      const Node& widen = graph.nodes[static_cast<size_t>(before)];
      if (widen.op.as<ops::Cast>() && is_narrow(graph.type(widen.inputs[0]).dtype)) chain.push_back(before);
    }
    chain.push_back(n);
    if (uses.single(y)) {
      const int32_t behind = uses.readers[static_cast<size_t>(y)][0];
      const Node& narrow = graph.nodes[static_cast<size_t>(behind)];
      if (const auto* cast = narrow.op.as<ops::Cast>(); cast && is_narrow(cast->to)) chain.push_back(behind);
    }
    if (chain.size() > 1) chains[chain.back()] = chain;
  }
  make_chains(graph, chains);
}

}  // namespace camshaft
