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

/// What a layer takes for a further profile's optimum.
struct FurtherTactic {
  std::string tactic;         ///< empty: that of the first profile
  int64_t ns = -1;            ///< its time at this profile's optimum, as measured or else estimated
  int64_t ns_with_first = 0;  ///< the time of the first profile's tactic there
};

/// Of one node.
struct TacticDecision {
  std::string tactic;              ///< empty for nodes that have no choice: views, branches
  std::vector<TacticTrial> tried;  ///< the candidates, and the best variant of all else, the best guess first
  std::vector<TacticDecision> parts =
      {};  ///< of a chain's nodes (compile/chain.h), for the case that they run as steps
  std::vector<FurtherTactic> further = {};  ///< of each profile behind the first; none where all have the same

  TacticChoice choice() const;
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

  /// One decision a node. `optima`: of each profile the symbols of the graph's inputs, as far as it names them; none
  /// where there is no profile. Tactics that tie within 2 % go to the cost model's favourite, so that noise does not
  /// flip them; smaller weights may take 5 % longer. Chains (compile/chain.h) may be given "steps": settle_chains()
  /// then makes their parts nodes again. What is one kernel or several is decided for the first profile; for further
  /// ones a layer has another tactic where that is faster by more than noise. Throws Error(invalid_argument) when the
  /// lock file does not fit this graph, Error(cancelled).
  std::vector<TacticDecision> choose(const Graph& graph, const std::vector<SymbolBindings>& optima, Deviation most);

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
  void take_share(size_t profiles);
  void choose_further(const Graph& graph, const SymbolBindings& symbols, Deviation most, size_t profile,
                      std::vector<TacticDecision>& decisions);
  const Tactic* fastest(const Layer& layer) const;
  int64_t time_of(const Layer& layer, const Tactic& tactic) const;
  std::vector<Layer> layers_of(const Graph& graph, const SymbolBindings& symbols, Deviation most,
                               const std::vector<TacticDecision>* decided = nullptr) const;
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
  double until_ = 0;             // so long the profile in hand may take
  TuneCounts counts_;
};

}  // namespace camshaft
