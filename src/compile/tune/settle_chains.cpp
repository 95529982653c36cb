#include "compile/tune/settle_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compile/chain.h"
#include "ir/region.h"

namespace camshaft {

namespace {

// "bands 366 us, steps 463 us, as measured"
std::string times_text(const TacticDecision& decision) {
  const bool measured = std::all_of(decision.tried.begin(), decision.tried.end(),
                                    [](const TacticTrial& trial) { return trial.measured_ns > 0; });
  std::string text;
  for (const TacticTrial& trial : decision.tried)
    text += fmt::format("{}{} {:.0f} us", text.empty() ? "" : ", ", trial.tactic,
                        1e-3 * static_cast<double>(measured ? trial.measured_ns : trial.estimated_ns));
  return text + (measured ? ", as measured" : ", as estimated");
}

class Settler {
 public:
  explicit Settler(const Graph& graph) {
    settled_.graph = graph;
    settled_.graph.nodes.clear();
    for (const Value& value : graph.values) names_.insert(value.name);
  }

  SettledGraph run(const Graph& graph, const std::vector<TacticDecision>& decisions) {
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (is_chain(node) && decisions[n].tactic == steps_tactic) {
        take_apart(node, decisions[n]);
        continue;
      }
      settled_.graph.nodes.push_back(node);
      settled_.decisions.push_back(decisions[n]);
    }
    return std::move(settled_);
  }

 private:
  void take_apart(const Node& chain, const TacticDecision& decision) {
    const Graph& parts = chain.bodies[0];
    std::vector<Node> nodes = open_region(chain, [&](const Value& inner) { return add_value(inner); });
    for (size_t n = 0; n < nodes.size(); ++n) {
      Node& part = nodes[n];
      if (n + 1 < nodes.size())
        settled_.notes[settled_.graph.value(part.outputs[0]).name].push_back(fmt::format(
            "not chained with '{}': {}", parts.value(parts.nodes[n + 1].outputs[0]).name, times_text(decision)));
      settled_.graph.nodes.push_back(std::move(part));
      settled_.decisions.push_back(decision.parts.at(n));
    }
  }

  // It had this name before it went into the chain.
  ValueId add_value(const Value& inner) {
    Value value{inner.name, inner.type, inner.constant, std::nullopt, inner.provenance};
    if (!names_.insert(value.name).second) {
      value.name = settled_.graph.unique_name(inner.name);
      names_.insert(value.name);
    }
    settled_.graph.values.push_back(std::move(value));
    return static_cast<ValueId>(settled_.graph.values.size() - 1);
  }

  std::set<std::string, std::less<>> names_;
  SettledGraph settled_;
};

}  // namespace

SettledGraph settle_chains(const Graph& graph, const std::vector<TacticDecision>& decisions) {
  return Settler(graph).run(graph, decisions);
}

}  // namespace camshaft
