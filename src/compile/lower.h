// Optimised graph → plan.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "compile/plan/plan.h"

namespace camshaft {

/// `symbols`, and a guess for every symbol of the graph's inputs that is not among them: 1 for those that first appear
/// along the first axis of an input, `size` for the others, and for one whose name is an expression of others' names,
/// as exporters write them, what that gives.
SymbolBindings assume_sizes(const Graph& graph, SymbolBindings symbols, int64_t size = 64);

/// Whether the node only gives its operand's bytes another shape, and nothing runs.
bool is_view(const Node& node);
/// Whether the node runs other nodes, which lower() chooses tactics for.
bool is_conditional(const Node& node);

struct LowerOptions {
  /// Values of symbols to choose tactics for (the optimum of the first profile); assume_sizes() adds what is missing.
  SymbolBindings symbols;
  /// Symbols that are bound before running, besides those of the graph's inputs (of a branch: those of the model's).
  std::set<std::string, std::less<>> bound;
  /// The same of further profiles, in their order: layers may have tactics of their own for these.
  std::vector<SymbolBindings> further_symbols;
  /// Those of a node, as an earlier build chose them; empty, or empty for a node: chosen here.
  std::vector<TacticChoice> tactics;
  /// Tactics that deviate more are not chosen.
  Deviation most_deviation = Deviation::rounding;
  /// Whether kernels must run on the host, as those of branches do.
  bool host_only = false;
  /// Cores that compile the kernels of `tactics`, and so pack their weights, at the same time.
  int cores = 1;
  /// Whether weights that kernels read on a device stay where they are: the caller places them (PlanStep::on_device).
  bool defers_weights = false;
  Cancellation cancellation;
};

/// Chooses a tactic for every node that has none, compiles the kernels, and lays out the plan. Nodes that are views
/// (reshape) become aliases and cost nothing. A tactic of `options` that the backend does not have (an engine built on
/// another machine) is chosen anew.
Plan lower(const Graph& graph, const Backend& backend, PackedConstants& constants, const LowerOptions& options);

}  // namespace camshaft
