#include "optimize/edit/chain_nodes.h"

#include <algorithm>

#include "ir/ops/region.h"

namespace camshaft {

namespace {

Node make_chain(Graph& graph, const std::vector<int32_t>& members) {
  const auto at = [&](int32_t n) -> Node& { return graph.nodes[static_cast<size_t>(n)]; };
  const auto name = [&](ValueId id) -> const std::string& { return graph.value(id).name; };
  Node chain{ops::Region{ops::RegionKind::chain}, {}, {at(members.back()).outputs[0]}, {}, {}};
  Graph body;
  std::map<ValueId, ValueId> inner{{no_value, no_value}};  // of the graph → of the body
  for (const int32_t n : members) {
    Node& old = at(n);
    std::vector<ValueId> inputs;
    for (const ValueId id : old.inputs) {
      if (inner.count(id) == 0) {
        chain.inputs.push_back(id);
        inner[id] = body.add_input(name(id), graph.type(id));
      }
      inputs.push_back(inner[id]);
    }
    chain.sources.insert(chain.sources.end(), old.sources.begin(), old.sources.end());
    inner[old.outputs[0]] =
        body.add_node(old.op, inputs, {name(old.outputs[0])}, old.sources, std::move(old.bodies))[0];
  }
  body.add_output(name(chain.outputs[0]), inner[chain.outputs[0]]);
  chain.bodies.push_back(std::move(body));
  return chain;
}

}  // namespace

const Node& first_operator(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  return region && region->kind == ops::RegionKind::contract ? node.bodies[0].nodes[0] : node;
}

ValueId sole_operand(const Node& node, size_t input) {
  const Node& first = first_operator(node);
  if (&first == &node) return node.inputs[input];
  const Graph& body = node.bodies[0];
  const ValueId id = first.inputs[input];
  const auto at = std::find(body.inputs.begin(), body.inputs.end(), id);
  int64_t reads = 0;
  for (const Node& inner : body.nodes) reads += std::count(inner.inputs.begin(), inner.inputs.end(), id);
  return at == body.inputs.end() || reads != 1 ? no_value : node.inputs[static_cast<size_t>(at - body.inputs.begin())];
}

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
