// Optimised graph → plan.
#pragma once

#include "camshaft/cancellation.h"
#include "compile/plan.h"

namespace camshaft {

struct LowerOptions {
  /// Values of symbols to choose tactics for (the optimum of the first profile).
  SymbolBindings symbols;
  /// One tactic a node, as an earlier build chose them; empty, or empty for a node: chosen here.
  std::vector<std::string> tactics;
  Cancellation cancellation;
};

/// Chooses a tactic for every node that has none, compiles the kernels, and lays out the plan. Nodes that are views
/// (reshape) become aliases and cost nothing. A tactic of `options` that the backend does not have (an engine built on
/// another machine) is chosen anew.
Plan lower(const Graph& graph, const Backend& backend, PackedConstants& constants, const LowerOptions& options);

}  // namespace camshaft
