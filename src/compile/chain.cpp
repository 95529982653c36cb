#include "compile/chain.h"

#include <algorithm>

#include "base/error.h"
#include "ir/ops/region.h"

namespace camshaft {

bool is_chain(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  return region && region->kind == ops::RegionKind::chain && node.bodies.size() == 1;
}

Graph open_chain(const RegionView& chain) {
  Graph body = chain.node.bodies.at(0);
  for (size_t i = 0; i < body.inputs.size() && i < chain.node.inputs.size(); ++i) {
    if (chain.node.inputs[i] == no_value) continue;
    const Value& outer = chain.graph.value(chain.node.inputs[i]);
    body.value(body.inputs[i]).name = outer.name;
    body.value(body.inputs[i]).constant = outer.constant;
    body.value(body.inputs[i]).provenance = outer.provenance;
  }
  return body;
}

std::vector<Tactic> tactics_of(const Backend& backend, const RegionView& region) {
  std::vector<Tactic> tactics = backend.tactics(region);
  if (!is_chain(region.node)) return tactics;
  std::erase_if(tactics, [](const Tactic& t) { return t.name == "reference"; });
  const Graph parts = open_chain(region);
  Tactic steps{std::string(steps_tactic)};
  for (const Node& part : parts.nodes) {
    const std::vector<Tactic> alone = backend.tactics({parts, part, region.symbols, region.threads});
    const auto exact =
        std::find_if(alone.begin(), alone.end(), [](const Tactic& t) { return t.deviation != Deviation::rounding; });
    if (exact == alone.end()) throw Error(ErrorCode::internal, "a region has no exact tactic");
    steps.estimated_seconds += exact->estimated_seconds;
  }
  tactics.push_back(std::move(steps));
  std::stable_sort(tactics.begin(), tactics.end(),
                   [](const Tactic& a, const Tactic& b) { return a.estimated_seconds < b.estimated_seconds; });
  return tactics;
}

}  // namespace camshaft
