// What operators count as in a budget.
#include "reference/operations.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/ops/contract.h"
#include "ir/ops/operators.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/text.h"

namespace camshaft::operations_test {
namespace {

double count(const Op& op, const std::vector<Shape>& shapes, const SymbolBindings& symbols = {}) {
  Graph graph;
  std::vector<ValueId> inputs;
  for (const Shape& shape : shapes) inputs.push_back(graph.add_input("x", {DType::f32, shape}));
  graph.add(op, inputs, "y");
  return operations_of(graph, graph.nodes[0], symbols);
}

// Of the last node.
double count(const std::string& inputs, const std::string& nodes) {
  const Graph graph = parse_graph("graph (" + inputs + ") {\n" + nodes + "\nreturn\n}", operators());
  return operations_of(graph, graph.nodes.back(), {});
}

TEST(Operations, OfProductsWindowsAndElements) {
  EXPECT_DOUBLE_EQ(count(ops::MatMul{}, {{1000, 2000}, {2000, 3000}}), 2.0 * 1000 * 2000 * 3000 + 100.0 * 11'000'000);
  EXPECT_DOUBLE_EQ(count(ops::MatMul{}, {{Dim::symbol("n"), 2000}, {2000, 3000}}, {{"n", 1000}}),
                   2.0 * 1000 * 2000 * 3000 + 100.0 * 11'000'000);
  ops::Pool pool;
  pool.kernel = {1001, 1001};
  pool.strides = pool.dilations = {1, 1};
  pool.pads = Shape(4, Dim(500));
  EXPECT_DOUBLE_EQ(count(pool, {{1, 1, 2000, 800}}), 60 * 1.6e6 * 1001 * 800 + 100 * 3.2e6);
  EXPECT_DOUBLE_EQ(count(ops::Pointwise{ScalarFunction::neg}, {{1'000'000}}), 200e6);
  EXPECT_DOUBLE_EQ(count(ops::Pointwise{ScalarFunction::exp}, {{1'000'000}}), 400e6);
}

TEST(Operations, NoOperatorIsForNothing) {
  EXPECT_DOUBLE_EQ(count(ops::Pointwise{ScalarFunction::exp}, {{2}}), 2e5);
  EXPECT_DOUBLE_EQ(count(ops::Pointwise{ScalarFunction::exp}, {{Dim::symbol("unknown")}}), 2e5);
}

TEST(Operations, WhatIsKnownCountsThoughTheResultIsNot) {
  EXPECT_DOUBLE_EQ(count("%x: f32[1000000]", "%y = non_zero {} (%x)"), 100e6);
}

// By how much operators took longer than their bytes say.
TEST(Operations, OfWhatIsDoneBesideMovingElements) {
  const auto at_least = [](double expected, const std::string& inputs, const std::string& nodes) {
    const double counted = count(inputs, nodes);
    EXPECT_GE(counted, expected) << nodes;
    EXPECT_LE(counted, 4 * expected) << nodes;
  };
  const double sorted = 4e8 * std::log2(4e8);
  at_least(300 * sorted, "%x: f32[400000000]", "const %k: i64[1] = 400000000\n%v, %i = top_k {axis=0} (%x, %k)");
  at_least(600 * sorted, "%x: f32[400000000]", "%y, %f, %i, %c = unique {} (%x)");
  at_least(3000e6, "%a: string[1000000], %b: string[1]", "%y = string_concat {} (%a, %b)");
  at_least(480e6, "%x: f32[1, 1, 16, 16]", "%y = resize {mode=cubic, axes=[2, 3], sizes=shape(1000, 1000)} (%x)");
  at_least(100e8, "%x: f32[1, 1, 4, 4], %r: f32[1, 4]",
           "const %b: i64[1] = 0\n%y = roi_align {height=100, width=100, sampling_ratio=100} (%x, %r, %b)");
  at_least(20e8, "%b: f32[1, 10000, 4], %s: f32[1, 1, 10000]",
           "const %m: i64[] = 100000\n%y = non_max_suppression {} (%b, %s, %m)");
  at_least(40e6, "%b: f32[1, 10000, 4], %s: f32[1, 1, 10000]",
           "const %m: i64[] = 5\n%y = non_max_suppression {} (%b, %s, %m)");
  at_least(80e9, "%x: f32[1, 1, 2, 2], %w: f32[1, 1, 2000, 2000]",
           "%y = conv_transpose {strides=[2000, 2000], pads=shape(0, 0, 0, 0), dilations=[1, 1], "
           "output_padding=shape(0, 0)} (%x, %w)");
  at_least(60e10, "%x: i64[100000]",
           "const %grams: i64[2] = [1, 2]\nconst %columns: i64[1] = 0\nconst %weights: f32[1] = 1\n"
           "%y = count_terms {gram_counts=[0, 1], most_length=2, most_skipped=50000} (%x, %grams, %columns, %weights)");
  at_least(12e9, "%x: f32[1000, 1000]", "%y = determinant {} (%x)");
  // One axis shrinks by 2000 taps an element, while the other still has all.
  at_least(60 * 1.28e8, "%x: f32[1, 1, 4000, 4000]",
           "%y = resize {mode=cubic, antialias=true, axes=[2, 3], sizes=shape(2000, 8)} (%x)");
}

}  // namespace
}  // namespace camshaft::operations_test
