// A tactic is found by what an engine records of it, as if all of a region's had been asked.
#include <gtest/gtest.h>

#include "backends/cpu/backend.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"

namespace camshaft::cpu::find_tactic_test {
namespace {

Graph conv_3x3() {
  Graph graph;
  ops::Conv op;
  op.channels_last = true;
  op.strides = op.dilations = {1, 1};
  op.pads = {1, 1, 1, 1};
  const ValueId x = graph.add_input("x", {DType::f32, {1, 14, 14, 32}});
  const ValueId w = graph.add_constant("w", Tensor(DType::f32, {32, 32, 3, 3}));
  graph.add(op, {x, w}, "y");
  return graph;
}

Graph exp() {
  Graph graph;
  graph.add(ops::Pointwise{ScalarFunction::exp}, {graph.add_input("x", {DType::f32, {7}})}, "y");
  return graph;
}

TEST(FindTactic, EachOfARegions) {
  size_t variants = 0;
  for (const Graph& graph : {conv_3x3(), exp()}) {
    const SymbolBindings symbols;
    const RegionView region{graph, graph.nodes.back(), symbols};
    for (const Tactic& tactic : backend()->tactics(region)) {
      const std::optional<Tactic> found = backend()->find_tactic(region, tactic.str());
      ASSERT_TRUE(found) << tactic.str();
      EXPECT_EQ(found->name, tactic.name);
      EXPECT_EQ(found->parameters, tactic.parameters);
      EXPECT_EQ(found->estimated_seconds, tactic.estimated_seconds);
      EXPECT_EQ(found->deviation, tactic.deviation);
      EXPECT_EQ(found->more_weight_bytes, tactic.more_weight_bytes);
      EXPECT_EQ(found->place, tactic.place);
      variants += tactic.parameters.empty() ? 0 : 1;
    }
  }
  EXPECT_GE(variants, 2u);  // of Winograd
}

TEST(FindTactic, WhatARegionDoesNotHave) {
  const Graph graph = conv_3x3();
  const SymbolBindings symbols;
  const RegionView region{graph, graph.nodes.back(), symbols};
  for (const char* written : {"", "softmax", "winograd", "winograd(tile=3)", "winograd(tile=4", "conv(tile=4)",
                              "reference(tile=4)", "no such tactic", "("})
    EXPECT_FALSE(backend()->find_tactic(region, written)) << written;
}

}  // namespace
}  // namespace camshaft::cpu::find_tactic_test
