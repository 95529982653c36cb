// From an optimised graph to an engine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/cancellation.h"
#include "compile/backend.h"
#include "compile/tune/tuner.h"
#include "ir/graph.h"
#include "ir/replaceable.h"
#include "runtime/engine.h"

namespace camshaft {

struct CompileOptions {
  std::vector<Profile> profiles;  ///< a tactic is chosen for the optimum of each
  std::map<std::string, std::string> metadata;
  /// Of each node; empty: the cheapest by estimate.
  std::vector<TacticDecision> decisions;
  /// Of values, by name, for inspection: see PassNotes.
  std::map<std::string, std::vector<std::string>> notes;
  Deviation most_deviation = Deviation::rounding;  ///< see LowerOptions
  /// Of an engine that can be refitted: the initializers of its model.
  std::optional<std::vector<InitializerRecord>> initializers;
  bool strip_weights = false;  ///< see BuildOptions
  Cancellation cancellation;
};

/// Takes or chooses tactics, packs constants and lays out the plan. The graph is taken as it is: run the passes first.
/// Throws Error(invalid_argument) for a profile that does not fit the graph's inputs, Error(cancelled).
Engine compile_graph(Graph graph, std::shared_ptr<const Backend> backend, const CompileOptions& options = {});

}  // namespace camshaft
