// Tactics are chosen by estimate, by the clock, or by a lock file.
#include "compile/tune/tuner.h"

#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include "compile/optimum.h"
#include "compile/tune/problem.h"
#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::tuner_test {
namespace {

class BusyLaunch final : public Launch {
 public:
  BusyLaunch(std::chrono::microseconds time, std::atomic<int>& runs) : time_(time), runs_(runs) {}
  void run(const LaunchArguments&) override {
    ++runs_;
    // Works, and does not sleep: time in which a thread waits for the processor does not count.
    const auto cpu_time = [] {
      timespec now{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    };
    for (const auto end = cpu_time() + time_; cpu_time() < end;) {
    }
  }

 private:
  std::chrono::microseconds time_;
  std::atomic<int>& runs_;
};

class BusyKernel final : public Kernel {
 public:
  BusyKernel(std::chrono::microseconds time, std::atomic<int>& runs) : time_(time), runs_(runs) {}
  std::unique_ptr<Launch> prepare(const KernelShapes&) const override {
    return std::make_unique<BusyLaunch>(time_, runs_);
  }

 private:
  std::chrono::microseconds time_;
  std::atomic<int>& runs_;
};

/// Offers what a test says, with estimates in the order of the list, and kernels that take as long as it says.
class BusyBackend : public Backend {
 public:
  struct Way {
    Tactic tactic;
    int microseconds;
  };
  explicit BusyBackend(std::vector<Way> ways) : ways_(std::move(ways)) {}

  const DeviceInfo& device() const override { return info_; }
  BackendPasses passes(DType, ops::Rounding) const override { return {}; }
  std::vector<Tactic> tactics(const RegionView&) const override {
    std::vector<Tactic> list;
    for (const Way& way : ways_) list.push_back(way.tactic);
    list.push_back({"reference", 100});
    return list;
  }
  std::shared_ptr<const Kernel> compile(const RegionView&, const Tactic& tactic, PackedConstants&) const override {
    for (const Way& way : ways_)
      if (way.tactic.str() == tactic.str())
        return std::make_shared<BusyKernel>(std::chrono::microseconds(way.microseconds), runs_);
    throw Error(ErrorCode::invalid_argument, "no such tactic");
  }
  bool can_unpack(const std::string&) const override { return false; }
  Tensor unpack(const PackedConstant&, DType, const Dims&) const override { return {}; }

  mutable std::atomic<int> runs_ = 0;

 private:
  std::vector<Way> ways_;
  DeviceInfo info_{"fake", "a fake", "none", 1, 0, {}, {}, "test"};
};

const std::vector<BusyBackend::Way> three_ways = {{{"rough", 1e-3, Deviation::rounding}, 100},
                                                  {{"good", 2e-3, Deviation::none, {{"rows", 8}}}, 900},
                                                  {{"fast", 3e-3}, 300}};

// Two equal layers under different names, a view, and another layer.
constexpr const char* model = R"(graph (%x: f32[n, 6]) {
  %a = softmax {axis=1} (%x) from "A"
  %b = softmax {axis=1} (%a) from "B"
  %r = reshape {shape=shape(6*n)} (%b)
  %c = pointwise {function=exp} (%r)
  return %c
})";

struct Tuned {
  Graph graph = parse_graph(model, operators());
  ThreadPool pool{1};
  std::vector<TacticDecision> choose(const BusyBackend& backend, TuneOptions options,
                                     Deviation most = Deviation::specials, TimingCache cache = {}) {
    tuner = std::make_unique<Tuner>(backend, pool, std::move(options), std::move(cache));
    return tuner->choose(graph, {}, most);
  }
  std::unique_ptr<Tuner> tuner;
};

TuneOptions mode(Tuning mode) {
  TuneOptions options;
  options.mode = mode;
  return options;
}

/// Whose "small" takes as many microseconds as there are elements, and whose "large" takes 300.
class SizedBackend final : public BusyBackend {
 public:
  SizedBackend() : BusyBackend({{{"small", 1e-3}, 0}, {{"large", 2e-3}, 300}}) {}
  std::vector<Tactic> tactics(const RegionView& region) const override {
    std::vector<Tactic> list = BusyBackend::tactics(region);
    list[0].estimated_seconds = 1e-6 * elements_at_optimum(region, region.node.outputs[0]);
    list[1].estimated_seconds = 300e-6;
    std::stable_sort(list.begin(), list.end(),
                     [](const Tactic& a, const Tactic& b) { return a.estimated_seconds < b.estimated_seconds; });
    return list;
  }
  std::shared_ptr<const Kernel> compile(const RegionView& region, const Tactic& tactic,
                                        PackedConstants& constants) const override {
    if (tactic.name != "small") return BusyBackend::compile(region, tactic, constants);
    const auto elements = static_cast<int64_t>(elements_at_optimum(region, region.node.outputs[0]));
    return std::make_shared<BusyKernel>(std::chrono::microseconds(elements), runs_);
  }
};

TEST(Tuner, ProfilesHaveTacticsOfTheirOwn) {
  const SizedBackend backend;
  Tuned t;
  for (const Tuning how : {Tuning::heuristic, Tuning::measure}) {
    Tuner tuner(backend, t.pool, mode(how), {});
    const auto decisions = tuner.choose(t.graph, {{{"n", 4}}, {{"n", 8}}, {{"n", 400}}}, Deviation::none);
    const TacticChoice expected{"small", {"", "large"}};
    for (const size_t n : {size_t{0}, size_t{1}, size_t{3}}) EXPECT_EQ(decisions[n].choice(), expected) << n;
    EXPECT_EQ(decisions[2].choice(), TacticChoice()) << "a view has none";
    EXPECT_GT(decisions[0].further[1].ns_with_first, 2 * decisions[0].further[1].ns);
    // The lock file says the same, to a build of the same graph.
    TuneOptions locked = mode(Tuning::locked);
    locked.lock = LockFile{};
    locked.lock->layers = tuner.lock_layers(t.graph, {{"n", 4}}, decisions);
    const auto again =
        Tuner(backend, t.pool, locked, {}).choose(t.graph, {{{"n", 4}}, {{"n", 8}}, {{"n", 400}}}, Deviation::none);
    for (size_t n = 0; n < decisions.size(); ++n) EXPECT_EQ(again[n].choice(), decisions[n].choice()) << n;
  }
}

TEST(Tuner, AChainThatStaysOneHasTacticsForItsProfiles) {
  const SizedBackend backend;
  Tuned t;
  t.graph = parse_graph(R"(graph (%x: f32[n, 6]) {
    %y = region {kind=chain} (%x) graph (%x: f32[n, 6]) {
      %a = softmax {axis=1} (%x)
      %y = softmax {axis=1} (%a)
      return %y
    }
    return %y
  })",
                        operators());
  for (const Tuning how : {Tuning::heuristic, Tuning::measure}) {
    const auto decisions =
        Tuner(backend, t.pool, mode(how), {}).choose(t.graph, {{{"n", 4}}, {{"n", 8}}, {{"n", 400}}}, Deviation::none);
    EXPECT_EQ(decisions[0].choice(), (TacticChoice{"small", {"", "large"}}));
  }
  // What the first profile has need not be the fastest for others.
  for (const Tuning how : {Tuning::heuristic, Tuning::measure}) {
    const auto decisions =
        Tuner(backend, t.pool, mode(how), {}).choose(t.graph, {{{"n", 400}}, {{"n", 4}}}, Deviation::none);
    EXPECT_EQ(decisions[0].choice(), (TacticChoice{"large", {"small"}}));
  }
}

TEST(Tuner, HeuristicTakesTheCheapestAllowedEstimateAndRunsNothing) {
  const BusyBackend backend(three_ways);
  Tuned t;
  const auto exact = t.choose(backend, mode(Tuning::heuristic));
  ASSERT_EQ(exact.size(), 4u);
  EXPECT_EQ(exact[0].tactic, "good(rows=8)");
  EXPECT_EQ(exact[2].tactic, "");  // the view
  EXPECT_EQ(t.choose(backend, mode(Tuning::heuristic), Deviation::rounding)[0].tactic, "rough");
  EXPECT_EQ(backend.runs_, 0);
  EXPECT_EQ(exact[0].tried,
            (std::vector<TacticTrial>{
                {"rough", 1000000, -1, true}, {"good(rows=8)", 2000000, -1, false}, {"fast", 3000000, -1}}));
}

TEST(Tuner, MeasuringTakesTheFastestAndMeasuresEqualProblemsOnce) {
  const BusyBackend backend(three_ways);
  Tuned t;
  const auto decisions = t.choose(backend, mode(Tuning::measure));
  for (const size_t n : {0, 1, 3}) EXPECT_EQ(decisions[n].tactic, "fast");
  EXPECT_EQ(t.tuner->counts().measured, 2);
  EXPECT_EQ(decisions[0].tried, decisions[1].tried);
  EXPECT_EQ(decisions[0].tried[0].measured_ns, -1);  // not allowed: not tried
  EXPECT_GE(decisions[0].tried[2].measured_ns, 300000);
  // Under other rules: only what is new is measured.
  EXPECT_EQ(t.tuner->choose(t.graph, {}, Deviation::rounding)[0].tactic, "rough");
  const int runs = backend.runs_;
  EXPECT_EQ(t.tuner->choose(t.graph, {}, Deviation::specials)[0].tactic, "fast");
  EXPECT_EQ(backend.runs_, runs);
}

TEST(Tuner, TiesGoToTheFavouriteOfTheCostModel) {
  TimingCache cache;
  const BusyBackend backend({{{"first", 1e-3}, 50}, {{"second", 2e-3}, 50}});
  Tuned t;
  t.choose(backend, mode(Tuning::measure));
  cache = t.tuner->cache();
  for (const auto& [second, winner] : {std::pair<int64_t, const char*>{9850, "first"}, {9700, "second"}}) {
    for (const Node& node : t.graph.nodes)
      for (const std::string& machine : {std::string("fake none [] a fake, test, 1 thread, weights in L2")})
        cache.set(machine, problem_text({t.graph, node, {{"n", 1}}}), {{"first", 10000}, {"second", second}});
    const int runs = backend.runs_;
    EXPECT_EQ(t.choose(backend, mode(Tuning::measure), Deviation::specials, cache)[0].tactic, winner);
    EXPECT_EQ(backend.runs_, runs) << "all of it is in the cache";
    EXPECT_EQ(t.tuner->counts().cached, 2);
  }
}

TEST(Tuner, SmallerWeightsMayTakeALittleLonger) {
  const auto way = [](const char* name, double seconds, int64_t more_weight_bytes) {
    Tactic tactic{name, seconds};
    tactic.more_weight_bytes = more_weight_bytes;
    return BusyBackend::Way{std::move(tactic), 50};
  };
  const BusyBackend backend({way("large", 1e-3, 3000), way("small", 2e-3, 1000), way("none", 3e-3, 0)});
  Tuned t;
  t.choose(backend, mode(Tuning::measure));
  TimingCache cache = t.tuner->cache();
  struct Case {
    int64_t large, small, none;
    const char* winner;
  };
  for (const Case& c :
       {Case{10000, 10490, 10520, "small"}, Case{10000, 10520, 10490, "none"}, Case{10000, 10520, 10520, "large"},
        Case{10000, 10400, 10450, "none"}, Case{10100, 10000, 11000, "small"}, Case{9000, 10000, 9100, "none"}}) {
    for (const Node& node : t.graph.nodes)
      cache.set("fake none [] a fake, test, 1 thread, weights in L2", problem_text({t.graph, node, {{"n", 1}}}),
                {{"large", c.large}, {"small", c.small}, {"none", c.none}});
    EXPECT_EQ(t.choose(backend, mode(Tuning::measure), Deviation::specials, cache)[0].tactic, c.winner)
        << c.large << " " << c.small << " " << c.none;
  }
  EXPECT_EQ(t.choose(backend, mode(Tuning::heuristic))[0].tactic, "large");
}

TEST(Tuner, TimesOfAnotherModelCountOnlyWhereTheCachesAreAsCold) {
  const BusyBackend backend(three_ways);
  Tuned small;
  small.choose(backend, mode(Tuning::measure));
  const auto same = [&](const std::string& constants) {
    Tuned other;
    other.graph =
        parse_graph("graph (%x: f32[n, 6]) {" + constants + " %a = softmax {axis=1} (%x) return %a }", operators());
    other.choose(backend, mode(Tuning::measure), Deviation::specials, small.tuner->cache());
    return other.tuner->counts().cached;
  };
  EXPECT_EQ(same(""), 1);
  EXPECT_EQ(same("const %w: f32[2048, 1024] = 1"), 0) << "8 MB of weights";
}

TEST(Tuner, TimesWithoutAWordOnTheCachesAreNotTaken) {
  const BusyBackend backend(three_ways);
  Tuned t;
  TimingCache old;
  for (const Node& node : t.graph.nodes)
    old.set("fake none [] a fake, test, 1 thread", problem_text({t.graph, node, {{"n", 1}}}),
            {{"good(rows=8)", 1}, {"fast", 1000}});
  EXPECT_EQ(t.choose(backend, mode(Tuning::measure), Deviation::specials, old)[0].tactic, "fast");
  EXPECT_EQ(t.tuner->counts().cached, 0);
}

TEST(CacheClass, OfWeights) {
  const BusyBackend backend(three_ways);
  EXPECT_EQ(cache_class(backend, {.weights = size_t{1} << 10, .activations = size_t{1} << 30}), "weights in L2");
  EXPECT_EQ(cache_class(backend, {.weights = size_t{1} << 30, .activations = 0}), "weights beyond L3");
}

TEST(Tuner, WhatTheCostModelFindsHopelessIsNotMeasured) {
  const BusyBackend backend({{{"one", 1e-3}, 10}, {{"five", 5e-3}, 10}});
  Tuned t;
  EXPECT_EQ(t.choose(backend, mode(Tuning::measure))[0].tactic, "one");
  EXPECT_EQ(backend.runs_, 0);
}

// As many variants of one tactic as are measured at all leave room for the second one of another.
TEST(Tuner, VariantsOfAllTacticsAreMeasuredInTurn) {
  std::vector<BusyBackend::Way> ways;
  for (int64_t variant = 0; variant < 14; ++variant)
    ways.push_back(
        {{"many", 1e-3 + 1e-6 * static_cast<double>(variant), Deviation::none, {{"variant", variant}}}, 300});
  ways.push_back({{"few", 2e-3, Deviation::none, {{"variant", 0}}}, 300});
  ways.push_back({{"few", 3e-3, Deviation::none, {{"variant", 1}}}, 100});
  const BusyBackend backend(ways);
  Tuned t;
  const TacticDecision decision = t.choose(backend, mode(Tuning::measure))[0];
  EXPECT_EQ(decision.tactic, "few(variant=1)");
  EXPECT_EQ(std::count_if(decision.tried.begin(), decision.tried.end(),
                          [](const auto& trial) { return trial.measured_ns >= 0; }),
            12);
}

TEST(Tuner, WithoutTimeTheCostModelDecides) {
  const BusyBackend backend(three_ways);
  TuneOptions options = mode(Tuning::measure);
  options.seconds = 0;
  Tuned t;
  EXPECT_EQ(t.choose(backend, options)[0].tactic, "good(rows=8)");
  EXPECT_EQ(backend.runs_, 0);
  EXPECT_EQ(t.tuner->counts().out_of_time, 2);
}

TEST(Tuner, AnotherThreadCountIsAnotherMeasurement) {
  const BusyBackend backend(three_ways);
  Tuned t;
  t.choose(backend, mode(Tuning::measure));
  ThreadPool two(2);
  Tuner tuner(backend, two, mode(Tuning::measure), t.tuner->cache());
  tuner.choose(t.graph, {}, Deviation::specials);
  EXPECT_EQ(tuner.counts().measured, 2);
  EXPECT_EQ(tuner.counts().cached, 0);
}

TEST(Tuner, IsCancelled) {
  const BusyBackend backend(three_ways);
  TuneOptions options = mode(Tuning::measure);
  options.progress = [cancellation = options.cancellation](double) mutable { cancellation.cancel(); };
  Tuned t;
  EXPECT_THROW(t.choose(backend, options), Error);
}

struct Locked : Tuned {
  BusyBackend backend{three_ways};
  LockFile lock;
  Locked() {
    const auto decisions = choose(backend, mode(Tuning::measure), Deviation::rounding);
    lock.model = "m.onnx";
    lock.tuning = tuner->summary();
    lock.layers = tuner->lock_layers(graph, {}, decisions);
  }
  std::vector<TacticDecision> unlock() {
    TuneOptions options = mode(Tuning::locked);
    options.lock = lock;
    backend.runs_ = 0;
    return choose(backend, options);
  }
  std::string refusal() {
    try {
      unlock();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.what();
    }
    return "";
  }
};

TEST(Tuner, ALockFileSaysItAll) {
  Locked l;
  l.lock.layers[1].tactic = "good(rows=8)";
  const auto decisions = l.unlock();
  EXPECT_EQ(l.backend.runs_, 0);
  EXPECT_EQ(decisions[0].tactic, "rough");
  EXPECT_EQ(decisions[1].tactic, "good(rows=8)");
  EXPECT_EQ(decisions[2].tactic, "");
  EXPECT_EQ(decisions[3].tactic, "rough");
  EXPECT_EQ(decisions[0].tried, l.lock.layers[0].tried);
  EXPECT_EQ(l.tuner->summary(), "measured with 1 thread on a fake");
}

TEST(Tuner, ALockFileThatDoesNotFitIsRefused) {
  {
    Locked l;
    l.lock.layers.pop_back();
    EXPECT_NE(l.refusal().find("ends before layer 'c'"), std::string::npos);
  }
  {
    Locked l;
    l.lock.layers.push_back(l.lock.layers.back());
    EXPECT_NE(l.refusal().find("4 layers, the model has 3"), std::string::npos);
  }
  {
    Locked l;
    l.lock.layers[1].problem = "0";
    EXPECT_NE(l.refusal().find("layer 'b'"), std::string::npos);
  }
  {
    Locked l;
    l.lock.layers[1].tactic = "rapid";
    EXPECT_NE(l.refusal().find("no tactic 'rapid'"), std::string::npos);
  }
}

TEST(Problem, TextHasWhatMattersAndNothingElse) {
  const auto text = [](const char* graph, SymbolBindings symbols = {{"n", 5}}) {
    const Graph g = parse_graph(graph, operators());
    return problem_text({g, g.nodes[0], symbols});
  };
  const std::string one = text("graph (%x: f32[n, 6]) { %a = softmax {axis=1} (%x) from \"A\" return %a }");
  EXPECT_EQ(one, text("graph (%other: f32[5, 6]) { %b = softmax {axis=1} (%other) return %b }"));
  EXPECT_NE(one, text("graph (%x: f32[n, 6]) { %a = softmax {axis=0} (%x) return %a }"));
  EXPECT_NE(one, text("graph (%x: f32[n, 6]) { %a = softmax {axis=1} (%x) return %a }", {{"n", 6}}));
  const char* constant = "graph (%x: f32[2, 2]) { const %w: f32[2, 2] = 1 %a = matmul (%x, %w) return %a }";
  EXPECT_EQ(text(constant), text("graph (%x: f32[2, 2]) { const %w: f32[2, 2] = 7 %a = matmul (%x, %w) return %a }"));
  EXPECT_NE(text(constant), text("graph (%x: f32[2, 2], %w: f32[2, 2]) { %a = matmul (%x, %w) return %a }"));
  EXPECT_NE(text("graph (%x: f32[2, 2], %w: f32[2, 2]) { %a = matmul (%x, %w) return %a }"),
            text("graph (%x: f32[2, 2]) { %a = matmul (%x, %x) return %a }"));
}

}  // namespace
}  // namespace camshaft::tuner_test
