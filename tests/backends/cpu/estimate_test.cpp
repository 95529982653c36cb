// Costs of regions whose fields name numbers that no machine computes.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/backend.h"
#include "ir/ops/attention.h"

namespace camshaft::cpu::estimate_test {
namespace {

// Found by fuzzing: the sum of both sizes overflowed.
TEST(Estimate, AttentionOfHugeHeads) {
  constexpr int64_t huge = int64_t{1} << 62;
  ops::Attention op;
  op.outer = op.queries = op.keys = {0};
  op.size = op.value_size = huge;
  op.query = op.key = op.value = op.result = {0, 1, 1, 1};
  op.shape = {0};
  Graph graph;
  std::vector<ValueId> inputs;
  for (const char* name : {"q", "k", "v"}) inputs.push_back(graph.add_input(name, {DType::f32, {0}}));
  graph.add(op, inputs, "y");
  for (const Tactic& tactic : backend()->tactics({graph, graph.nodes[0], {}})) {
    EXPECT_TRUE(std::isfinite(tactic.estimated_seconds));
    EXPECT_GE(tactic.estimated_seconds, 0);
  }
}

}  // namespace
}  // namespace camshaft::cpu::estimate_test
