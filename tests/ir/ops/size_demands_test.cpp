#include "ir/ops/size_demands.h"

#include <gtest/gtest.h>

#include "ir/ops/contract.h"
#include "ir/ops/graph_text.h"

namespace camshaft::ops::size_demands_test {
namespace {

std::vector<std::string> texts(const Graph& graph) {
  std::vector<std::string> found;
  for (const SizeDemand& demand : size_demands(graph))
    found.push_back(demand.a.str() + (demand.broadcasts ? " ~ " : " = ") + demand.b.str());
  return found;
}

TEST(SizeDemands, ChannelsAndSums) {
  Graph graph;
  const auto input = [&](const std::string& name, const Shape& shape) {
    return graph.add_input(name, {DType::f32, shape});
  };
  const Dim n = Dim::symbol("n"), c = Dim::symbol("c"), k = Dim::symbol("k");
  const ValueId x = input("x", {n, c, 8, 8});
  graph.add(Conv{{1, 1}, {0, 0, 0, 0}, {1, 1}, 2}, {x, input("w", {8, 3, 3, 3})}, "y");
  graph.add(ConvTranspose{{1, 1}, {0, 0, 0, 0}, {1, 1}, {0, 0}, 1}, {x, input("u", {6, 4, 2, 2})}, "z");
  graph.add(MatMul{true, true}, {input("a", {k, 5}), input("b", {7, 9})}, "p");
  graph.add(MatMul{}, {input("d", {2, 4}), input("e", {4, 7})}, "q");  // which nobody can break
  EXPECT_EQ(texts(graph), (std::vector<std::string>{"c = 6", "c = 6", "k = 9"}));
}

TEST(SizeDemands, BroadcastOperands) {
  const Graph graph = parse(R"(graph (%x: f32[n, floor_div(h, 16) + 1, 4], %table: f32[1, 17, 4]) {
    %y = pointwise {function=add} (%x, %table)
    return %y
  })");
  const std::vector<SizeDemand> demands = size_demands(graph);
  ASSERT_EQ(demands.size(), 1U);
  EXPECT_TRUE(demands[0].is_met({{"h", 256}}));
  EXPECT_TRUE(demands[0].is_met({{"h", 15}})) << "one row is broadcast";
  EXPECT_FALSE(demands[0].is_met({{"h", 224}}));
  EXPECT_TRUE(demands[0].is_met({{"n", 3}})) << "nothing is known of it";
}

TEST(SizeDemands, WhatCannotBeEvaluatedIsNotMet) {
  const SizeDemand demand{floor_div(Dim(8), Dim::symbol("h")), 2};
  EXPECT_TRUE(demand.is_met({{"h", 4}}));
  EXPECT_FALSE(demand.is_met({{"h", 0}}));
}

}  // namespace
}  // namespace camshaft::ops::size_demands_test
