#include "compile/tune/settle_chains.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compile/chain.h"

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
    std::vector<ValueId> outer(parts.values.size(), no_value);  // values of the body in the graph
    for (size_t i = 0; i < parts.inputs.size(); ++i) outer[static_cast<size_t>(parts.inputs[i])] = chain.inputs[i];
    for (size_t o = 0; o < parts.outputs.size(); ++o) outer[static_cast<size_t>(parts.outputs[o])] = chain.outputs[o];
    for (size_t n = 0; n < parts.nodes.size(); ++n) {
      Node part = parts.nodes[n];
      for (ValueId& id : part.inputs)
        if (id != no_value) id = outer[static_cast<size_t>(id)];
      for (ValueId& id : part.outputs) {
        ValueId& place = outer[static_cast<size_t>(id)];
        if (place == no_value) place = add_value(parts.value(id));
        id = place;
      }
      if (n + 1 < parts.nodes.size())
        settled_.notes[settled_.graph.value(part.outputs[0]).name].push_back(fmt::format(
            "not chained with '{}': {}", parts.value(parts.nodes[n + 1].outputs[0]).name, times_text(decision)));
      settled_.graph.nodes.push_back(std::move(part));
      settled_.decisions.push_back(decision.parts.at(n));
    }
  }

  // It had this name before it went into the chain.
  ValueId add_value(const Value& inner) {
    Value value{inner.name, inner.type, nullptr, std::nullopt};
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
