// Shape arithmetic as exporters write it, followed through whole graphs.
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/small_tensors.h"

namespace camshaft::ops::shape_chain_test {
namespace {

struct Chain : testing::Test {
  Graph graph;
  Dim batch = Dim::symbol("batch"), seq = Dim::symbol("seq");
  ValueId x = graph.add_input("x", {DType::f32, {batch, seq, 12, 64}});
  ValueId shape = graph.add(ShapeOf{0, 4}, {x}, "shape");

  ValueId ints(const Dims& dims, const std::vector<int64_t>& values) {
    return graph.add_constant("c", i64(dims, values));
  }
  // One dim as a vector of one element, the way torch exports it: gather a scalar, then unsqueeze.
  ValueId dim(int64_t axis) {
    const ValueId scalar = graph.add(Gather{0}, {shape, ints({}, {axis})}, "gathered");
    EXPECT_EQ(graph.type(scalar).shape.size(), 0u);
    return graph.add(Reshape{{1}}, {scalar}, "unsqueezed");
  }
  std::optional<std::vector<Dim>> content(ValueId id) { return graph.value(id).content; }
};

TEST_F(Chain, HeadsMergeIntoASymbolicReshape) {
  const ValueId merged = graph.add(Pointwise{ScalarFunction::mul}, {dim(2), dim(3)}, "merged");
  const ValueId rows = graph.add(Pointwise{ScalarFunction::mul}, {dim(0), dim(1)}, "rows");
  const ValueId target = graph.add(Concat{0}, {rows, merged}, "target");
  ASSERT_EQ(content(target), (std::vector<Dim>{batch * seq, 768}));
  const ValueId y = graph.add(Reshape{*content(target)}, {x}, "y");
  EXPECT_EQ(graph.shape(y), (Shape{batch * seq, 768}));
}

TEST_F(Chain, SlicesTransposesAndExpands) {
  const ValueId front = graph.add(Slice{{0}, {0}, {2}, {1}}, {shape}, "front");
  EXPECT_EQ(content(front), (std::vector<Dim>{batch, seq}));
  const ValueId back = graph.add(Slice{{0}, {3}, {4}, {-1}}, {shape}, "back");
  EXPECT_EQ(content(back), (std::vector<Dim>{64, 12, seq, batch}));
  EXPECT_EQ(content(graph.add(Transpose{{0}}, {back}, "same")), content(back));
  const ValueId last = graph.add(Gather{0}, {back, ints({2}, {-1, 0})}, "picked");
  EXPECT_EQ(content(last), (std::vector<Dim>{batch, 64}));
  const ValueId ones = graph.add(Expand{{3}}, {ints({}, {1})}, "ones");
  EXPECT_EQ(content(graph.add(Concat{0}, {ones, front}, "all")), (std::vector<Dim>{1, 1, 1, batch, seq}));
  const ValueId cut = graph.add(DynamicSlice{}, {shape, ints({1}, {1}), ints({1}, {-1})}, "cut");
  EXPECT_EQ(content(cut), (std::vector<Dim>{seq, 12}));
}

TEST_F(Chain, PositionsAreARangeOfTheSequenceLength) {
  const ValueId length = graph.add(Gather{0}, {shape, ints({}, {1})}, "length");
  const ValueId positions = graph.add(Range{}, {ints({}, {0}), length, ints({}, {1})}, "positions");
  EXPECT_EQ(graph.shape(positions), (Shape{seq}));
  EXPECT_FALSE(content(positions).has_value());
}

TEST_F(Chain, WhatIsNotKnownStaysUnknown) {
  const ValueId pick = graph.add_input("pick", {DType::i64, {}});
  EXPECT_FALSE(content(graph.add(Gather{0}, {shape, pick}, "a")).has_value());
  EXPECT_FALSE(content(graph.add(Slice{{0}, {seq}, {1}, {1}}, {shape}, "b")).has_value());
  EXPECT_FALSE(content(graph.add(Reshape{{2, 2}}, {shape}, "c")).has_value());
  const ValueId one = graph.add(Reshape{{1}}, {pick}, "one");
  EXPECT_FALSE(content(graph.add(Concat{0}, {shape, one}, "d")).has_value());
}

}  // namespace
}  // namespace camshaft::ops::shape_chain_test
