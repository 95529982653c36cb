// Choosing among a contraction's variants, by estimate, by the device's clock, and by a lock.
#include <gtest/gtest.h>

#include "backends/cuda/run_node.h"
#include "compile/tune/tuner.h"
#include "ir/ops/operators.h"
#include "ir/text.h"

namespace camshaft::cuda::tuning_test {
namespace {

constexpr const char* model = R"(graph (%x: f32[rows, 40]) {
  const %w: f32[40, 24] = 0.5
  %y = matmul (%x, %w)
  return %y
})";

TuneOptions in_mode(Tuning mode, const LockFile& lock = {}) {
  TuneOptions options;
  options.mode = mode;
  if (mode == Tuning::locked) options.lock = lock;
  return options;
}

TEST(CudaTuning, VariantsAreMeasuredOnTheDevice) {
  SKIP_WITHOUT_GPU();
  const Graph graph = parse_graph(model, operators());
  const auto device = backend(0, cpu::backend());
  const SymbolBindings optimum{{"rows", 20}};
  ThreadPool pool(1);

  Tuner guess(*device, pool, in_mode(Tuning::heuristic));
  const TacticDecision guessed = guess.choose(graph, {optimum}, Deviation::rounding).at(0);
  EXPECT_EQ(guessed.tactic, guessed.tried.at(0).tactic);
  EXPECT_NE(guessed.tactic.find("cuda_contract(m="), std::string::npos) << guessed.tactic;

  Tuner tuner(*device, pool, in_mode(Tuning::measure));
  const std::vector<TacticDecision> measured = tuner.choose(graph, {optimum}, Deviation::rounding);
  EXPECT_EQ(tuner.counts().measured, 1);
  int64_t least = -1, chosen = -1;
  for (const TacticTrial& trial : measured.at(0).tried) {
    if (trial.measured_ns > 0 && (least < 0 || trial.measured_ns < least)) least = trial.measured_ns;
    if (trial.tactic == measured.at(0).tactic) chosen = trial.measured_ns;
  }
  EXPECT_GT(least, 0);
  EXPECT_LE(static_cast<double>(chosen), 1.02 * static_cast<double>(least));

  // Any variant can be locked, also one that nobody would have measured.
  LockFile lock;
  lock.layers = tuner.lock_layers(graph, optimum, measured);
  for (const Tactic& tactic : device->tactics({graph, graph.nodes[0], optimum})) {
    lock.layers.at(0).tactic = tactic.str();
    EXPECT_EQ(
        Tuner(*device, pool, in_mode(Tuning::locked, lock)).choose(graph, {optimum}, Deviation::rounding).at(0).tactic,
        tactic.str());
  }
}

}  // namespace
}  // namespace camshaft::cuda::tuning_test
