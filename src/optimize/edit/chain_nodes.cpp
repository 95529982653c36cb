#include "optimize/edit/chain_nodes.h"

#include <algorithm>

#include "ir/region_editor.h"

namespace camshaft {

namespace {

// Whether somebody outside reads a value.
bool is_read(const Uses& uses, ValueId id, const std::vector<int32_t>& members) {
  const std::vector<int32_t>& readers = uses.readers[static_cast<size_t>(id)];
  return uses.is_output[static_cast<size_t>(id)] || std::any_of(readers.begin(), readers.end(), [&](int32_t reader) {
           return std::find(members.begin(), members.end(), reader) == members.end();
         });
}

Node make_chain(Graph& graph, const std::vector<int32_t>& members, const Uses& uses) {
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
  for (auto member = members.begin(); member + 1 != members.end(); ++member)
    for (const ValueId result : at(*member).outputs)
      if (is_read(uses, result, members)) chain.add_result(result, inner.at(result));
  chain.set_sources(std::move(sources));
  return chain.finish();
}

}  // namespace

void make_chains(Graph& graph, const std::map<int32_t, std::vector<int32_t>>& chains) {
  if (chains.empty()) return;
  const Uses uses(graph);
  std::vector<bool> taken(graph.nodes.size());
  for (const auto& [last, members] : chains)
    for (const int32_t n : members) taken[static_cast<size_t>(n)] = true;
  std::vector<Node> nodes;
  for (int32_t n = 0; n < static_cast<int32_t>(graph.nodes.size()); ++n) {
    if (const auto chain = chains.find(n); chain != chains.end())
      nodes.push_back(make_chain(graph, chain->second, uses));
    else if (!taken[static_cast<size_t>(n)])
      nodes.push_back(std::move(graph.nodes[static_cast<size_t>(n)]));
  }
  graph.nodes = std::move(nodes);
  remove_dead(graph);
}

}  // namespace camshaft
