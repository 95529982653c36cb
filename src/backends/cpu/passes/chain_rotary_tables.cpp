#include "backends/cpu/passes/chain_rotary_tables.h"

#include <algorithm>
#include <map>

#include "backends/cpu/tactics/rotary_embedding.h"
#include "ir/ops/move.h"
#include "ir/ops/rotary_embedding.h"
#include "optimize/edit/chain_nodes.h"

namespace camshaft {

void chain_rotary_tables(Graph& graph, const PassContext&) {
  using Rotary = ops::RotaryEmbedding;
  const Uses uses(graph);
  std::map<int32_t, std::vector<int32_t>> chains;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    const Node& rotary = graph.nodes[static_cast<size_t>(n)];
    if (!rotary.op.as<Rotary>()) continue;
    std::vector<int32_t> chain;
    for (const size_t i : {Rotary::in_cosine, Rotary::in_sine}) {
      ValueId table = rotary.inputs[i];
      std::vector<int32_t> nodes;
      for (int32_t before; uses.single(table) && (before = uses.producer[static_cast<size_t>(table)]) >= 0;) {
        const Node& node = graph.nodes[static_cast<size_t>(before)];
        nodes.push_back(before);
        if (cpu::gathers_rows(graph, node)) chain.insert(chain.end(), nodes.begin(), nodes.end());
        if (!node.op.as<ops::Reshape>()) break;
        table = node.inputs[0];
      }
    }
    if (chain.empty()) continue;
    std::sort(chain.begin(), chain.end());
    chain.push_back(n);
    chains[n] = std::move(chain);
  }
  make_chains(graph, chains);
}

}  // namespace camshaft
