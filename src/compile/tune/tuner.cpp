#include "compile/tune/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/hash.h"
#include "base/seconds_since.h"
#include "compile/chain.h"
#include "compile/lower.h"
#include "compile/tune/compile_ahead.h"
#include "compile/tune/problem.h"

namespace camshaft {

namespace {

// The cost model may be off by this much either way; what it finds slower than that by far is not worth the time.
constexpr double plausible = 4;
constexpr size_t most_candidates = 12;
// A device's kernels have more variants, whose times lie closer together (ResNet-50 on an H200: 0.253 ms with 12, 0.241
// with 70), and are measured faster.
constexpr size_t most_candidates_on_device = 32;
// With little time some candidates of all layers are measured rather than all of some layers. (ResNet-50 on an H200 in
// 10 s: 9 of 29 problems.)
constexpr size_t least_candidates_on_device = 4;
constexpr double seconds_to_compile = 1.2;  // a kernel of an H200's, on one core
// Differences below this are noise.
constexpr double tie = 1.02;
// A tactic that is slower by no more than this is taken for its smaller weights: they are memory of the process, and
// what the layers around find in the caches. (Of VGG-16's convolutions of 14 x 14 pixels F(2,3) takes 21 MB less each
// than F(4,3), 63 of 760 in all, and 94 to 106 % of its time.)
constexpr double frugal = 1.05;
// By so much another tactic must be faster at a further profile's sizes: on the host it may want weights in a layout of
// its own, which all profiles then carry; estimates alone say less.
constexpr double gain_on_device = 0.97, gain_on_host = 0.9, gain_by_estimate = 0.8;

int64_t nanoseconds(double seconds) {
  return static_cast<int64_t>(std::llround(std::clamp(seconds, 0.0, 1e6) * 1e9));
}

bool has_choice(const Node& node) {
  return !is_view(node) && !is_conditional(node);
}

// Code, clock and neighbours of the measurements: times from elsewhere say nothing here.
std::string machine_text(const DeviceInfo& device, int threads) {
  std::string features;
  for (const std::string& feature : device.features) features += (features.empty() ? "" : ",") + feature;
  return fmt::format("{} {} [{}] {}, {}, {} {}", device.kind, device.isa, features, device.name, device.code, threads,
                     threads == 1 ? "thread" : "threads");
}

std::string hash_of(const RegionView& region) {
  return to_hex(hash64(problem_text(region)));
}

}  // namespace

TacticChoice TacticDecision::choice() const {
  TacticChoice choice{tactic, {}};
  for (const FurtherTactic& each : further) choice.further.push_back(each.tactic);
  return choice;
}

struct Tuner::Layer {
  size_t node = 0;
  std::vector<Tactic> offered;            // without the reference evaluation where there is anything else
  std::vector<const Tactic*> candidates;  // worth measuring against each other
  std::vector<TacticDecision> parts;      // of a chain
  std::string problem;                    // of layers with several candidates
  std::string kept;                       // a tactic that is a candidate in any case

  /// What one contest decides.
  std::string contest() const {
    std::string text = problem;
    for (const Tactic* t : candidates) text += " " + t->str();
    return text;
  }

  /// Whether one is that the parts of a chain run one by one.
  bool has_steps() const {
    return std::any_of(candidates.begin(), candidates.end(), [](const Tactic* t) { return t->name == steps_tactic; });
  }

  /// The best guess of every tactic that is plausible at all, then the second one of each, and so on, `most_on_device`
  /// in all if they are a device's. (By estimates alone the 14 variants of one tactic left two places of 16 to all
  /// others, of which one was faster: the last product of a 1B decoder's layer on an H200 took 14 us, and takes 11.)
  void choose_candidates(Deviation most, size_t most_on_device) {
    candidates.clear();
    const auto is_allowed = [&](const Tactic& t) { return t.deviation <= most; };
    // The host is there for what the device has no kernel for: not to be measured against it.
    const bool on_device = std::any_of(offered.begin(), offered.end(),
                                       [&](const Tactic& t) { return is_allowed(t) && t.place == Place::device; });
    std::vector<const Tactic*> plausible_ones;
    double least = -1;
    for (const Tactic& t : offered)
      if (is_allowed(t) && (!on_device || t.place == Place::device)) {
        plausible_ones.push_back(&t);
        least = least < 0 ? t.estimated_seconds : std::min(least, t.estimated_seconds);
      }
    // The parts of a chain are measured whatever is estimated: sums of estimates do not know what lies in caches
    // between them. (A depthwise convolution of 32 x 56 x 56 between transposes: 405 us, it takes 66.)
    std::erase_if(plausible_ones, [&](const Tactic* t) {
      return t->name != steps_tactic && t->str() != kept && t->estimated_seconds > plausible * least;
    });
    std::map<std::string_view, size_t> variants;  // of each tactic so far
    std::vector<std::pair<size_t, const Tactic*>> by_turn;
    for (const Tactic* t : plausible_ones) by_turn.emplace_back(variants[t->name]++, t);
    std::stable_sort(by_turn.begin(), by_turn.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    const size_t count = on_device ? most_on_device : most_candidates;
    std::set<const Tactic*> chosen;
    for (const auto& [turn, t] : by_turn)
      if (turn == 0 || chosen.size() < count) chosen.insert(t);
    for (const Tactic* t : plausible_ones)
      if (chosen.count(t) != 0 || t->str() == kept) candidates.push_back(t);
  }

  /// Whether it is told what came of it: of many variants only those that promised most are of interest.
  bool is_told(const Tactic& tactic) const {
    if (std::find(candidates.begin(), candidates.end(), &tactic) != candidates.end()) return true;
    return &tactic ==
           &*std::find_if(offered.begin(), offered.end(), [&](const Tactic& t) { return t.name == tactic.name; });
  }
};

Tuner::Tuner(const Backend& backend, ThreadPool& pool, TuneOptions options, TimingCache cache)
    : backend_(backend), pool_(pool), options_(std::move(options)), cache_(std::move(cache)) {}

// `decided`: whose tactics are candidates in any case.
std::vector<Tuner::Layer> Tuner::layers_of(const Graph& graph, const SymbolBindings& symbols, Deviation most,
                                           const std::vector<TacticDecision>* decided) const {
  std::vector<Layer> layers;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!has_choice(graph.nodes[n])) continue;
    options_.cancellation.check("choosing tactics");
    const RegionView region{graph, graph.nodes[n], symbols, pool_.size()};
    Layer layer;
    layer.node = n;
    if (decided) layer.kept = (*decided)[n].tactic;
    layer.offered = tactics_of(backend_, region);
    if (layer.offered.size() > 1) std::erase_if(layer.offered, [](const Tactic& t) { return t.name == "reference"; });
    layer.choose_candidates(most, most_candidates_on_device);
    if (layer.candidates.empty()) throw Error(ErrorCode::internal, "a region has no exact tactic");
    if (layer.candidates.size() > 1) layer.problem = problem_text(region);
    layers.push_back(std::move(layer));
  }
  return layers;
}

bool Tuner::all_known(const Layer& layer) const {
  const TacticTimes* times = cache_.find(place_, layer.problem);
  return times && std::all_of(layer.candidates.begin(), layer.candidates.end(),
                              [&](const Tactic* t) { return times->count(t->str()) != 0; });
}

void Tuner::share_time(std::vector<Layer>& layers, Deviation most) const {
  std::set<std::string_view> problems;
  for (const Layer& layer : layers)
    if (!layer.problem.empty() && !all_known(layer)) problems.insert(layer.problem);
  if (problems.empty() || backend_.device().id == DeviceId::host) return;
  const double kernels = std::max(until_ - seconds_, 0.0) * backend_.device().cores / seconds_to_compile;
  const double of_each = std::clamp(kernels / static_cast<double>(problems.size()), double{least_candidates_on_device},
                                    double{most_candidates_on_device});
  for (Layer& layer : layers) {
    if (problems.count(layer.problem) == 0) continue;
    const std::vector<const Tactic*> all = std::move(layer.candidates);
    layer.choose_candidates(most, static_cast<size_t>(of_each));
    // What was measured before is known for nothing.
    const TacticTimes* times = cache_.find(place_, layer.problem);
    const std::set<const Tactic*> chosen(layer.candidates.begin(), layer.candidates.end());
    layer.candidates.clear();
    for (const Tactic* t : all)
      if (chosen.count(t) != 0 || (times && times->count(t->str()) != 0)) layer.candidates.push_back(t);
  }
}

void Tuner::measure(const Graph& graph, const SymbolBindings& symbols, const std::vector<Layer>& layers) {
  struct Problem {
    const Layer* layer = nullptr;
    double seconds = 0;  // of all layers with it
  };
  std::map<std::string, Problem> found;
  for (const Layer& layer : layers) {
    if (layer.problem.empty() || tried_.count(layer.contest()) != 0) continue;
    if (all_known(layer)) {
      tried_.insert(layer.contest());
      ++counts_.cached;
      continue;
    }
    Problem& problem = found[layer.problem];
    problem.layer = &layer;
    problem.seconds += layer.candidates.front()->estimated_seconds;
  }
  std::vector<Problem> problems;
  for (const auto& [text, problem] : found) problems.push_back(problem);
  std::stable_sort(problems.begin(), problems.end(),
                   [](const Problem& a, const Problem& b) { return a.seconds > b.seconds; });
  if (problems.empty()) return;

  const auto start = std::chrono::steady_clock::now();
  const double before = seconds_;
  Contest contest(backend_, pool_, model_, options_.cancellation);
  std::vector<CompileAhead::Entry> entries;
  for (const Problem& problem : problems) {
    const Node& node = graph.nodes[problem.layer->node];
    // Those with parts are compiled turn by turn.
    entries.push_back({{graph, node, symbols},
                       problem.layer->has_steps() ? std::vector<const Tactic*>() : problem.layer->candidates});
  }
  constexpr double very_long = 1e6;
  const auto left = std::chrono::duration<double>(std::clamp(until_ - before, 0.0, very_long));
  CompileAhead compiled(backend_, std::move(entries), pool_.size(),
                        start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(left),
                        options_.cancellation);
  const auto is_over = [&] { return seconds_since(start) >= left.count(); };
  for (size_t p = 0; p < problems.size(); ++p) {
    if (options_.progress) options_.progress(static_cast<double>(p) / static_cast<double>(problems.size()));
    const Layer& layer = *problems[p].layer;
    const RegionView region{graph, graph.nodes[layer.node], symbols, pool_.size()};
    std::vector<Contestant> contestants;
    if (!is_over() && !layer.has_steps()) contestants = compiled.take(p);
    if (is_over()) {  // maybe before all of these were compiled
      counts_.out_of_time += static_cast<int64_t>(problems.size() - p);
      break;
    }
    const std::vector<int64_t> ns =
        layer.has_steps() ? measure_chain(contest, region, layer) : contest.measure(region, std::move(contestants));
    tried_.insert(layer.contest());
    TacticTimes times;
    if (const TacticTimes* known = cache_.find(place_, layer.problem)) times = *known;
    for (size_t c = 0; c < ns.size(); ++c)
      if (ns[c] > 0) times[layer.candidates[c]->str()] = ns[c];
    if (ns.empty()) continue;
    cache_.set(place_, layer.problem, std::move(times));
    ++counts_.measured;
  }
  seconds_ = before + seconds_since(start);
}

// The parts one by one stand for "steps": in turns with the chain itself, so that what disturbs hits both.
std::vector<int64_t> Tuner::measure_chain(Contest& contest, const RegionView& chain, const Layer& layer) {
  constexpr int turns = 3;
  const Graph parts = open_chain(chain);
  std::vector<const Tactic*> kernels;
  for (const Tactic* t : layer.candidates)
    if (t->name != steps_tactic) kernels.push_back(t);
  std::vector<int64_t> least(kernels.size() + parts.nodes.size(), -1);
  const auto keep_least = [&](size_t i, int64_t ns) {
    if (ns > 0) least[i] = least[i] < 0 ? ns : std::min(least[i], ns);
  };
  for (int turn = 0; turn < turns; ++turn) {
    const std::vector<int64_t> whole = contest.measure(chain, kernels);
    for (size_t k = 0; k < whole.size(); ++k) keep_least(k, whole[k]);
    for (size_t p = 0; p < parts.nodes.size(); ++p) {
      const RegionView part{parts, parts.nodes[p], chain.symbols, chain.threads};
      for (const Tactic& tactic : backend_.tactics(part)) {
        if (tactic.str() != layer.parts[p].tactic) continue;
        const std::vector<int64_t> ns = contest.measure(part, {&tactic});
        if (!ns.empty()) keep_least(kernels.size() + p, ns[0]);
      }
    }
  }
  int64_t steps = 0;
  for (size_t p = kernels.size(); p < least.size(); ++p) steps = steps < 0 || least[p] < 0 ? -1 : steps + least[p];
  std::vector<int64_t> ns;
  size_t next = 0;
  for (const Tactic* t : layer.candidates) ns.push_back(t->name == steps_tactic ? steps : least[next++]);
  return ns;
}

std::vector<TacticDecision> Tuner::choose(const Graph& graph, const std::vector<SymbolBindings>& optima,
                                          Deviation most) {
  const SymbolBindings symbols = assume_sizes(graph, optima.empty() ? SymbolBindings() : optima.front());
  if (options_.mode == Tuning::locked) return unlock(graph, symbols);
  if (options_.mode == Tuning::measure) {
    model_ = model_bytes(graph, symbols);
    place_ = machine_text(backend_.device(), pool_.size()) + ", " + cache_class(backend_, model_);
  }
  const size_t profiles = std::max<size_t>(optima.size(), 1);
  take_share(profiles);
  std::vector<TacticDecision> decisions = choose_layers(graph, symbols, most);
  for (size_t p = 1; p < profiles; ++p) {
    take_share(profiles - p);
    choose_further(graph, assume_sizes(graph, optima[p]), most, p, decisions);
  }
  return decisions;
}

// Of what is left of the time for measuring, for the first of so many profiles.
void Tuner::take_share(size_t profiles) {
  until_ = seconds_ + std::max(options_.seconds - seconds_, 0.0) / static_cast<double>(profiles);
}

// -1 where it was not measured.
int64_t Tuner::time_of(const Layer& layer, const Tactic& tactic) const {
  if (layer.problem.empty() || options_.mode == Tuning::heuristic) return -1;
  const TacticTimes* times = cache_.find(place_, layer.problem);
  if (!times) return -1;
  const auto known = times->find(tactic.str());
  return known == times->end() ? -1 : known->second;
}

const Tactic* Tuner::fastest(const Layer& layer) const {
  int64_t least = -1;
  for (const Tactic* t : layer.candidates)
    if (const int64_t ns = time_of(layer, *t); ns > 0 && (least < 0 || ns < least)) least = ns;
  const auto is_within = [&](const Tactic& tactic, double factor) {
    const int64_t ns = time_of(layer, tactic);
    return ns > 0 && static_cast<double>(ns) <= factor * static_cast<double>(least);
  };
  const Tactic* chosen = *std::find_if(layer.candidates.begin(), layer.candidates.end(),
                                       [&](const Tactic* t) { return least < 0 || is_within(*t, tie); });
  for (const Tactic* t : layer.candidates)
    if (least > 0 && is_within(*t, frugal) && t->more_weight_bytes < chosen->more_weight_bytes) chosen = t;
  return chosen;
}

void Tuner::choose_further(const Graph& graph, const SymbolBindings& symbols, Deviation most, size_t profile,
                           std::vector<TacticDecision>& decisions) {
  std::vector<Layer> layers;
  for (Layer& layer : layers_of(graph, symbols, most, &decisions)) {
    TacticDecision& decision = decisions[layer.node];
    if (decision.tactic == steps_tactic) {
      const Graph parts = open_chain({graph, graph.nodes[layer.node], symbols});
      choose_further(parts, assume_sizes(parts, symbols), std::min(most, Deviation::specials), profile, decision.parts);
      continue;
    }
    // A chain stays one.
    std::erase_if(layer.candidates, [](const Tactic* t) { return t->name == steps_tactic; });
    if (layer.candidates.size() > 1) layers.push_back(std::move(layer));
  }
  if (options_.mode == Tuning::measure) {
    share_time(layers, most);
    measure(graph, symbols, layers);
  }
  for (const Layer& layer : layers) {
    TacticDecision& decision = decisions[layer.node];
    const auto first = std::find_if(layer.candidates.begin(), layer.candidates.end(),
                                    [&](const Tactic* t) { return t->str() == decision.tactic; });
    if (first == layer.candidates.end()) continue;  // not for these sizes
    const Tactic* chosen = fastest(layer);
    if (chosen == *first || chosen->place != (*first)->place) continue;
    int64_t ns = time_of(layer, *chosen), with_first = time_of(layer, **first);
    const bool is_measured = ns > 0 && with_first > 0;
    if (!is_measured) {
      ns = nanoseconds(chosen->estimated_seconds);
      with_first = nanoseconds((*first)->estimated_seconds);
    }
    const double gain = !is_measured                     ? gain_by_estimate
                        : chosen->place == Place::device ? gain_on_device
                                                         : gain_on_host;
    if (static_cast<double>(ns) > gain * static_cast<double>(with_first)) continue;
    decision.further.resize(profile);
    decision.further.back() = {chosen->str(), ns, with_first};
  }
}

std::vector<TacticDecision> Tuner::choose_layers(const Graph& graph, const SymbolBindings& symbols, Deviation most) {
  std::vector<Layer> layers = layers_of(graph, symbols, most);
  for (Layer& layer : layers)
    if (layer.has_steps()) {
      const Graph parts = open_chain({graph, graph.nodes[layer.node], symbols});
      layer.parts = choose_layers(parts, assume_sizes(parts, symbols), std::min(most, Deviation::specials));
    }
  if (options_.mode == Tuning::measure) {
    share_time(layers, most);
    measure(graph, symbols, layers);
  }

  std::vector<TacticDecision> decisions(graph.nodes.size());
  for (Layer& layer : layers) {
    TacticDecision& decision = decisions[layer.node];
    decision.parts = std::move(layer.parts);
    decision.tactic = fastest(layer)->str();
    for (const Tactic& t : layer.offered)
      if (layer.is_told(t))
        decision.tried.push_back({t.str(), nanoseconds(t.estimated_seconds), time_of(layer, t), t.deviation > most});
  }
  return decisions;
}

std::string Tuner::summary() const {
  switch (options_.mode) {
    case Tuning::heuristic:
      return "heuristic";
    case Tuning::locked:
      return options_.lock->tuning;
    case Tuning::measure:
      break;
  }
  return fmt::format("measured with {} {} on {}", pool_.size(), pool_.size() == 1 ? "thread" : "threads",
                     backend_.device().name);
}

std::vector<LockedLayer> Tuner::lock_layers(const Graph& graph, const SymbolBindings& optimum,
                                            const std::vector<TacticDecision>& decisions) const {
  const SymbolBindings symbols = assume_sizes(graph, optimum);
  std::vector<LockedLayer> layers;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!has_choice(graph.nodes[n])) continue;
    const RegionView region{graph, graph.nodes[n], symbols, pool_.size()};
    layers.push_back({graph.value(region.node.outputs[0]).name, hash_of(region), decisions[n].tactic,
                      decisions[n].tried, decisions[n].choice().further});
    if (decisions[n].tactic != steps_tactic) continue;
    std::vector<LockedLayer> parts = lock_layers(open_chain(region), symbols, decisions[n].parts);
    std::move(parts.begin(), parts.end(), std::back_inserter(layers));
  }
  return layers;
}

namespace {

[[noreturn]] void refuse(const LockFile& lock, const std::string& what) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the lock file of '{}', written by Camshaft {}, does not fit this build: {}; write it anew",
                          lock.model, lock.made_by, what));
}

}  // namespace

std::vector<TacticDecision> Tuner::unlock(const Graph& graph, const SymbolBindings& symbols) const {
  size_t layers = 0;
  std::vector<TacticDecision> decisions = unlock_from(layers, graph, symbols);
  const size_t locked = options_.lock->layers.size();
  if (layers != locked) refuse(*options_.lock, fmt::format("it has {} layers, the model has {}", locked, layers));
  return decisions;
}

std::vector<TacticDecision> Tuner::unlock_from(size_t& next, const Graph& graph, const SymbolBindings& symbols) const {
  const LockFile& lock = *options_.lock;
  std::vector<TacticDecision> decisions(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!has_choice(graph.nodes[n])) continue;
    const RegionView region{graph, graph.nodes[n], symbols, pool_.size()};
    const std::string& name = graph.value(graph.nodes[n].outputs[0]).name;
    if (next == lock.layers.size()) refuse(lock, fmt::format("it ends before layer '{}'", name));
    const LockedLayer& layer = lock.layers[next++];
    if (layer.problem != hash_of(region))
      refuse(lock,
             fmt::format("its layer '{}' is another computation, or of other shapes or constants, than layer '{}' here",
                         layer.name, name));
    const std::vector<Tactic> offered = tactics_of(backend_, region);
    if (std::none_of(offered.begin(), offered.end(), [&](const Tactic& t) { return t.str() == layer.tactic; }))
      refuse(lock, fmt::format("there is no tactic '{}' for layer '{}'", layer.tactic, name));
    decisions[n] = {layer.tactic, layer.tried};
    for (const std::string& tactic : layer.further) decisions[n].further.push_back({tactic});
    if (layer.tactic == steps_tactic) decisions[n].parts = unlock_from(next, open_chain(region), symbols);
  }
  return decisions;
}

}  // namespace camshaft
