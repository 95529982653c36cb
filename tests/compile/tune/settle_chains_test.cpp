// Chains stay, or become their parts again, as the tuner decides.
#include "compile/tune/settle_chains.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>

#include "compile/chain.h"
#include "compile/tune/problem.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace camshaft::settle_chains_test {
namespace {

const std::string weights = R"(graph (%x: f32[n, 6, 6, 4]) {
  const %we: f32[8, 4, 1, 1] = 0.5
  const %wd: f32[8, 1, 3, 3] = 0.5
  const %zero: f32[] = 0
  )";
const std::string expansion = "conv {strides=[1, 1], pads=shape(0, 0, 0, 0), dilations=[1, 1], channels_last=true} ";
const std::string depthwise =
    "conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], groups=8, channels_last=true} ";

const std::string with_chain = weights + R"(%y = region {kind=chain} (%x, %we, %wd) from "E", "D"
    graph (%x: f32[n, 6, 6, 4], %we: f32[8, 4, 1, 1], %wd: f32[8, 1, 3, 3]) {
      %e = region {kind=contract} (%x, %we) from "E"
        graph (%x: f32[n, 6, 6, 4], %we: f32[8, 4, 1, 1]) {
          const %zero: f32[] = 0
          %c = )" + expansion + R"((%x, %we)
          %e = pointwise {function=max} (%c, %zero)
          return %e
        }
      %y = )" + depthwise + R"((%e, %wd) from "D"
      return %y
    }
  %z = pointwise {function=exp} (%y)
  return %z
})";

const std::string of_parts = weights + R"(%e = region {kind=contract} (%x, %we) from "E"
    graph (%x: f32[n, 6, 6, 4], %we: f32[8, 4, 1, 1]) {
      const %zero: f32[] = 0
      %c = )" + expansion + R"((%x, %we)
      %e = pointwise {function=max} (%c, %zero)
      return %e
    }
  %y = )" + depthwise + R"((%e, %wd) from "D"
  %z = pointwise {function=exp} (%y)
  return %z
})";

class WaitingLaunch final : public Launch {
 public:
  explicit WaitingLaunch(int microseconds) : microseconds_(microseconds) {}
  void run(const LaunchArguments&) override {
    const auto cpu_time = [] {  // time in which the thread waits for the processor does not count
      timespec now{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
    };
    for (const auto end = cpu_time() + std::chrono::microseconds(microseconds_); cpu_time() < end;) {
    }
  }

 private:
  int microseconds_;
};

class WaitingKernel final : public Kernel {
 public:
  explicit WaitingKernel(int microseconds) : microseconds_(microseconds) {}
  std::unique_ptr<Launch> prepare(const KernelShapes&) const override {
    return std::make_unique<WaitingLaunch>(microseconds_);
  }

 private:
  int microseconds_;
};

/// "bands" for chains, if they have an estimate, and "alone" or "slow" for everything else. A part takes 300 us, or
/// 900.
class ChainBackend final : public Backend {
 public:
  ChainBackend(double estimate, int microseconds) : estimate_(estimate), microseconds_(microseconds) {}

  const DeviceInfo& device() const override { return info_; }
  BackendPasses passes(DType, ops::Rounding) const override { return {}; }
  std::vector<Tactic> tactics(const RegionView& region) const override {
    if (!is_chain(region.node))
      return {{"rough", 1e-5, Deviation::rounding}, {"alone", 1e-3}, {"slow", 2e-3}, {"reference", 1}};
    if (estimate_ <= 0) return {{"reference", 1}};
    return {{"bands", estimate_}, {"reference", 1}};
  }
  std::shared_ptr<const Kernel> compile(const RegionView&, const Tactic& tactic, PackedConstants&) const override {
    return std::make_shared<WaitingKernel>(tactic.name == "bands" ? microseconds_ : tactic.name == "slow" ? 900 : 300);
  }
  bool can_unpack(const std::string&) const override { return false; }
  Tensor unpack(const PackedConstant&, DType, const Dims&) const override { return {}; }

 private:
  double estimate_;
  int microseconds_;
  DeviceInfo info_{"fake", "a fake", "none", 1, 0, {}, {}, "test"};
};

struct Settling {
  Settling(const ChainBackend& backend, Tuning mode, std::optional<LockFile> lock = std::nullopt)
      : tuner(backend, pool, {.mode = mode, .lock = std::move(lock), .progress = {}, .cancellation = {}}),
        decisions(tuner.choose(graph, {}, Deviation::specials)),
        settled(settle_chains(graph, decisions)) {
    verify(settled.graph, "settling the chains");
  }

  ThreadPool pool{1};
  Graph graph = parse_graph(with_chain, operators());
  Tuner tuner;
  std::vector<TacticDecision> decisions;
  SettledGraph settled;
};

void expect_parts(const Settling& s) {
  const Graph expected = parse_graph(of_parts, operators());
  EXPECT_TRUE(equal(s.settled.graph, expected)) << print(s.settled.graph);
  ASSERT_EQ(s.settled.graph.nodes.size(), 3u);
  EXPECT_EQ(s.settled.graph.value(s.settled.graph.nodes[0].outputs[0]).name, "e");
  EXPECT_EQ(s.settled.graph.nodes[1].sources, std::vector<std::string>{"D"});
  ASSERT_EQ(s.settled.decisions.size(), 3u);
  for (const TacticDecision& decision : s.settled.decisions) EXPECT_EQ(decision.tactic, "alone");
}

TEST(SettleChains, ByEstimate) {
  const Settling cheap({0.5e-3, 0}, Tuning::heuristic);
  EXPECT_EQ(cheap.decisions[0].tactic, "bands");
  EXPECT_TRUE(equal(cheap.settled.graph, cheap.graph));
  EXPECT_EQ(cheap.settled.decisions[0].tactic, "bands");

  const Settling dear({3e-3, 0}, Tuning::heuristic);
  EXPECT_EQ(dear.decisions[0].tactic, "steps");
  expect_parts(dear);
  EXPECT_EQ(dear.settled.notes.at("e"),
            (std::vector<std::string>{"not chained with 'y': steps 2000 us, bands 3000 us, as estimated"}));
}

TEST(SettleChains, ByTheClock) {
  const Settling fast({3e-3, 400}, Tuning::measure);
  EXPECT_EQ(fast.decisions[0].tactic, "bands");
  EXPECT_EQ(fast.settled.decisions[0].tactic, "bands");
  ASSERT_EQ(fast.decisions[0].tried.size(), 2u);
  EXPECT_GE(fast.decisions[0].tried[0].measured_ns, 600000) << "both parts";

  const Settling slow({0.5e-3, 1200}, Tuning::measure);
  EXPECT_EQ(slow.decisions[0].tactic, "steps");
  expect_parts(slow);
}

TEST(SettleChains, PartsAreMeasuredAsColdAsTheWholeModelLeavesThem) {
  const ChainBackend backend(1e-3, 400);
  ThreadPool pool(1);
  TuneOptions options;
  options.mode = Tuning::measure;
  Tuner tuner(backend, pool, options);
  // 8 MB of weights, of which the chain's parts have next to nothing.
  const std::string with_weights = with_chain.substr(0, with_chain.find('\n')) + " const %other: f32[2048, 1024] = 1" +
                                   with_chain.substr(with_chain.find('\n'));
  const Graph graph = parse_graph(with_weights, operators());
  tuner.choose(graph, {}, Deviation::rounding);
  const Graph parts = open_chain({graph, graph.nodes[0], {{"n", 1}}});
  const std::string part = problem_text({parts, parts.nodes[0], {{"n", 1}}}),
                    machine = "fake none [] a fake, test, 1 thread, ";
  EXPECT_NE(tuner.cache().find(machine + cache_class(backend, {.weights = size_t{8} << 20, .activations = 0}), part),
            nullptr);
  EXPECT_EQ(tuner.cache().find(machine + "weights in L2", part), nullptr);
}

TEST(SettleChains, ABackendThatHasNoKernelForThem) {
  const Settling none({0, 0}, Tuning::measure);
  EXPECT_EQ(none.decisions[0].tactic, "steps");
  expect_parts(none);
}

TEST(SettleChains, ByALockFile) {
  for (const double estimate : {0.5e-3, 3e-3}) {
    const ChainBackend backend(estimate, 0);
    const Settling first(backend, Tuning::heuristic);
    LockFile lock;
    lock.layers = first.tuner.lock_layers(first.graph, {}, first.decisions);
    ASSERT_EQ(lock.layers.size(), estimate < 1e-3 ? 2u : 4u) << "the parts, too, where they run alone";
    // Estimates that say the contrary do not count.
    const Settling again({3.5e-3 - estimate, 0}, Tuning::locked, lock);
    EXPECT_TRUE(equal(again.settled.graph, first.settled.graph));
    EXPECT_EQ(again.decisions[0].tactic, first.decisions[0].tactic);
    EXPECT_EQ(again.settled.notes, first.settled.notes);
  }
}

}  // namespace
}  // namespace camshaft::settle_chains_test
