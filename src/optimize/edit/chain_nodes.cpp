#include "optimize/edit/chain_nodes.h"

#include "ir/region_editor.h"

namespace camshaft {

namespace {

Node make_chain(Graph& graph, const std::vector<int32_t>& members) {
  const auto at = [&](int32_t n) -> const Node& { return graph.nodes[static_cast<size_t>(n)]; };
  RegionEditor chain(graph, ops::RegionKind::chain);
  std::map<ValueId, ValueId> inner;  // of the graph → of the body
  std::vector<std::string> sources;
  for (const int32_t n : members) {
    for (const ValueId id : at(n).inputs)
      if (id != no_value && !inner.contains(id)) inner[id] = chain.add_operand(id);
    chain.copy_node(graph, at(n), inner);
    sources.insert(sources.end(), at(n).sources.begin(), at(n).sources.end());
  }
  for (const ValueId result : at(members.back()).outputs) chain.add_result(result, inner.at(result));
  chain.set_sources(std::move(sources));
  return chain.finish();
}

}  // namespace

void make_chains(Graph& graph, const std::map<int32_t, std::vector<int32_t>>& chains) {
  if (chains.empty()) return;
  std::vector<bool> taken(graph.nodes.size());
  for (const auto& [last, members] : chains)
    for (const int32_t n : members) taken[static_cast<size_t>(n)] = true;
  std::vector<Node> nodes;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    if (const auto chain = chains.find(n); chain != chains.end())
      nodes.push_back(make_chain(graph, chain->second));
    else if (!taken[static_cast<size_t>(n)])
      nodes.push_back(std::move(graph.nodes[static_cast<size_t>(n)]));
  }
  graph.nodes = std::move(nodes);
  remove_dead(graph);
}

}  // namespace camshaft
