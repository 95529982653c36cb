#include "backends/cuda/passes/chain_updates.h"

#include <algorithm>
#include <map>

#include "ir/ops/move.h"
#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"
#include "optimize/edit/chain_nodes.h"

namespace camshaft {

namespace {

using Attention = ops::PagedAttention;

// Attention reads what an update gives, where that lies between only as heads and as rows again.
void read_past_views(Graph& graph) {
  const Uses uses(graph);
  for (Node& node : graph.nodes) {
    if (!node.op.as<Attention>()) continue;
    ValueId id = node.inputs[Attention::in_query];
    const Shape wanted = graph.shape(id);
    for (int32_t n = uses.producer[static_cast<size_t>(id)]; n >= 0; n = uses.producer[static_cast<size_t>(id)]) {
      const Node& view = graph.nodes[static_cast<size_t>(n)];
      if (!view.op.as<ops::Reshape>() || view.inputs.size() != 1) break;
      id = view.inputs[0];
    }
    if (graph.shape(id) == wanted) node.inputs[Attention::in_query] = id;
  }
  remove_dead(graph);
}

}  // namespace

void chain_updates(Graph& graph, const PassContext& /*context*/) {
  read_past_views(graph);
  const Uses uses(graph);
  std::map<int32_t, std::vector<int32_t>> chains;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    const Node& update = graph.nodes[static_cast<size_t>(n)];
    if (!update.op.as<ops::PagedUpdate>() || !uses.single(update.outputs[ops::PagedUpdate::out_query])) continue;
    const int32_t reader = uses.readers[static_cast<size_t>(update.outputs[ops::PagedUpdate::out_query])][0];
    const Node& attention = graph.nodes[static_cast<size_t>(reader)];
    const auto reads = [&](size_t i, size_t o) {
      return attention.inputs[i] == update.outputs[o] &&
             std::count(attention.inputs.begin(), attention.inputs.end(), update.outputs[o]) == 1;
    };
    if (!attention.op.as<Attention>() || !reads(Attention::in_query, ops::PagedUpdate::out_query) ||
        !reads(Attention::in_keys, ops::PagedUpdate::out_keys) ||
        !reads(Attention::in_values, ops::PagedUpdate::out_values))
      continue;
    // Somebody has the caches, and nothing reads them before they are results of the chain.
    const auto follows = [&](int32_t other) { return other >= reader; };
    const auto is_read_behind = [&](size_t o) {
      const ValueId cache = update.outputs[o];
      const auto& readers = uses.readers[static_cast<size_t>(cache)];
      return !uses.single(cache) && std::all_of(readers.begin(), readers.end(), follows);
    };
    if (is_read_behind(ops::PagedUpdate::out_keys) && is_read_behind(ops::PagedUpdate::out_values))
      chains[reader] = {n, reader};
  }
  make_chains(graph, chains);
}

}  // namespace camshaft
