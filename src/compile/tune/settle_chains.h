// What the tuner decided about chains, put into the graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/tune/tuner.h"

namespace camshaft {

struct SettledGraph {
  Graph graph;
  std::vector<TacticDecision> decisions;                  ///< one a node
  std::map<std::string, std::vector<std::string>> notes;  ///< on values, by name: why neighbours are no chain
};

/// Replaces every chain whose tactic is "steps" by its parts. `decisions` are the tuner's for `graph`.
SettledGraph settle_chains(const Graph& graph, const std::vector<TacticDecision>& decisions);

}  // namespace camshaft
