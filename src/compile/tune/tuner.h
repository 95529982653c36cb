// Choosing a tactic for every layer.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compile/tune/contest.h"
#include "compile/tune/lock_file.h"
#include "compile/tune/timing_cache.h"

namespace camshaft {

/// Of one node.
struct TacticDecision {
  std::string tactic;              ///< empty for nodes that have no choice: views, branches
  std::vector<TacticTrial> tried;  ///< what promised most, and the best variant of all else, the best guess first
  std::vector<TacticDecision> parts =
      {};  ///< of a chain's nodes (compile/chain.h), for the case that they run as steps
};

struct TuneOptions {
  Tuning mode = Tuning::measure;
  std::optional<LockFile> lock;  ///< of mode locked
  /// Once measuring has taken this long, the cost model decides the rest; the layers that promise most come first.
  double seconds = 60;
  std::function<void(double fraction)> progress;
  Cancellation cancellation;
};

/// How many different problems (see problem_text) with several good candidates there were, by what decided them.
struct TuneCounts {
  int64_t measured = 0, cached = 0, out_of_time = 0;
};

/// Chooses for one model; remembers what it has measured, so that a second choice under other rules costs nothing.
class Tuner {
 public:
  Tuner(const Backend& backend, ThreadPool& pool, TuneOptions options, TimingCache cache = {});

  /// One decision a node. `optimum`: the symbols of the graph's inputs, as far as a profile names them. Tactics that
  /// tie within 2 % go to the cost model's favourite, so that noise does not flip them; smaller weights may take 5 %
  /// longer. Chains (compile/chain.h) may be given "steps": settle_chains() then makes their parts nodes again. Throws
  /// Error(invalid_argument) when the lock file does not fit this graph, Error(cancelled).
  std::vector<TacticDecision> choose(const Graph& graph, const SymbolBindings& optimum, Deviation most);

  /// In words, for the engine's metadata.
  std::string summary() const;
  const TuneCounts& counts() const { return counts_; }
  /// With what was measured.
  const TimingCache& cache() const { return cache_; }

  /// The lock file's layers for decisions on this graph.
  std::vector<LockedLayer> lock_layers(const Graph& graph, const SymbolBindings& optimum,
                                       const std::vector<TacticDecision>& decisions) const;

 private:
  struct Layer;
  std::vector<TacticDecision> choose_layers(const Graph& graph, const SymbolBindings& symbols, Deviation most);
  std::vector<Layer> layers_of(const Graph& graph, const SymbolBindings& symbols, Deviation most) const;
  /// Of layers that a device runs: takes as many candidates of each as there is time to compile.
  void share_time(std::vector<Layer>& layers, Deviation most) const;
  void measure(const Graph& graph, const SymbolBindings& symbols, const std::vector<Layer>& layers);
  std::vector<int64_t> measure_chain(Contest& contest, const RegionView& chain, const Layer& layer);
  bool all_known(const Layer& layer) const;
  std::vector<TacticDecision> unlock(const Graph& graph, const SymbolBindings& symbols) const;
  std::vector<TacticDecision> unlock_from(size_t& next, const Graph& graph, const SymbolBindings& symbols) const;

  const Backend& backend_;
  ThreadPool& pool_;
  TuneOptions options_;
  TimingCache cache_;
  ModelBytes model_;   // of the whole model, for the parts of chains too
  std::string place_;  // where the cache has its times: machine, threads, how cold the model leaves its weights
  std::set<std::string> tried_;  // contests that were held, or need not be
  double seconds_ = 0;           // spent measuring
  TuneCounts counts_;
};

}  // namespace camshaft
