#include "ir/ops/dynamic.h"

#include <limits>

#include "base/error.h"
#include "ir/ops/operators.h"
#include "reference/evaluate.h"
#include "reference/single_op.h"

namespace camshaft::ops::dynamic_test {
namespace {

const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});

Tensor one(const Op& op, const std::vector<Tensor>& inputs) {
  return run_op(op, inputs).at(0);
}

TEST(DynamicReduce, TakesItsAxesFromData) {
  EXPECT_EQ(one(DynamicReduce{ReduceKind::sum, false, false, 1}, {x, i64({1}, {-1})}), f32({2}, {6, 15}));
  EXPECT_EQ(one(DynamicReduce{ReduceKind::max, true, false, 2}, {x, i64({1}, {0})}), f32({1, 3}, {4, 5, 6}));
  EXPECT_EQ(one(DynamicReduce{ReduceKind::sum, false, false, 0}, {x, i64({2}, {1, -2})}), f32({}, {21}));
}

TEST(DynamicReduce, WithoutAxesReducesAllOrNothing) {
  EXPECT_EQ(one(DynamicReduce{ReduceKind::sum, true, false, 2}, {x, i64({0}, {})}), f32({1, 1}, {21}));
  EXPECT_EQ(one(DynamicReduce{ReduceKind::sum, true, true, 2}, {x, i64({0}, {})}), x);
}

TEST(DynamicReduce, RefusesBadAxes) {
  const DynamicReduce op{ReduceKind::sum, true, false, 2};
  EXPECT_NE(error_of([&] { one(op, {x, i64({1}, {2})}); }).find("axis 2 does not exist"), std::string::npos);
  EXPECT_NE(error_of([&] { one(op, {x, i64({2}, {1, -1})}); }).find("axis 1 is named twice"), std::string::npos);
  EXPECT_NE(error_of([&] { one(op, {x, f32({1}, {1})}); }).find("the axes must be i64 or i32"), std::string::npos);
  EXPECT_THROW(one(DynamicReduce{ReduceKind::sum, false, false, 3}, {x, i64({1}, {0})}), Error);
}

TEST(DynamicShapes, RefusesImpossibleRanks) {
  const auto refusal = [](const Op& op) { return error_of([&] { one(op, {x, i64({1}, {0})}); }); };
  EXPECT_NE(refusal(DynamicSqueeze{-1}).find("cannot be squeezed to -1"), std::string::npos);
  EXPECT_NE(refusal(DynamicUnsqueeze{int64_t{1} << 60}).find("at most 64"), std::string::npos);
  EXPECT_NE(refusal(DynamicUnsqueeze{std::numeric_limits<int64_t>::min()}).find("at most 64"), std::string::npos);
}

TEST(DynamicShapes, SqueezeAndUnsqueeze) {
  const Tensor tall = x.reshaped({2, 1, 3, 1});
  EXPECT_EQ(one(DynamicSqueeze{2}, {tall, i64({2}, {-1, 1})}), x);
  EXPECT_EQ(one(DynamicUnsqueeze{4}, {x, i64({2}, {-1, 1})}), tall);
  EXPECT_NE(error_of([&] {
              one(DynamicSqueeze{3}, {tall, i64({1}, {0})});
            }).find("axis 0 has 2 elements"),
            std::string::npos);
  EXPECT_THROW(one(DynamicUnsqueeze{3}, {x, i64({2}, {0, 1})}), Error);
}

TEST(DynamicTile, RepeatsEveryAxis) {
  EXPECT_EQ(one(DynamicTile{}, {f32({1, 2}, {1, 2}), i64({2}, {2, 2})}), f32({2, 4}, {1, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_EQ(one(DynamicTile{}, {x, i64({2}, {0, 1})}).dims(), (Dims{0, 3}));
  EXPECT_EQ(one(DynamicTile{}, {Tensor::scalar(DType::f32, 3), i64({0}, {})}), Tensor::scalar(DType::f32, 3));
  EXPECT_THROW(one(DynamicTile{}, {x, i64({2}, {-1, 1})}), Error);
  EXPECT_THROW(one(DynamicTile{}, {x, i64({2}, {int64_t{1} << 62, 1})}), Error);
}

TEST(DynamicSplit, PartsMustFillTheAxis) {
  Graph graph;
  const ValueId data = graph.add_input("x", {DType::f32, {2, 3}}), sizes = graph.add_input("sizes", {DType::i64, {2}});
  const auto parts = graph.add_node(DynamicSplit{1}, {data, sizes}, {"a", "b"});
  graph.add_output("a", parts[0]);
  graph.add_output("b", parts[1]);
  const auto out = evaluate(graph, {x, i64({2}, {1, 2})}, test_pool());
  EXPECT_EQ(out[0], f32({2, 1}, {1, 4}));
  EXPECT_EQ(out[1], f32({2, 2}, {2, 3, 5, 6}));
  EXPECT_THROW(evaluate(graph, {x, i64({2}, {1, 1})}, test_pool()), Error);
  EXPECT_THROW(evaluate(graph, {x, i64({2}, {4, -1})}, test_pool()), Error);
}

TEST(DynamicPad, PadsTheAxesGiven) {
  EXPECT_EQ(one(DynamicPad{}, {x, i64({2}, {1, 0}), Tensor::scalar(DType::f32, 9), i64({1}, {-1})}),
            f32({2, 4}, {9, 1, 2, 3, 9, 4, 5, 6}));
  EXPECT_EQ(one(DynamicPad{PadMode::edge}, {x, i64({4}, {-1, 0, 0, 1})}), f32({1, 4}, {4, 5, 6, 6}));
  EXPECT_THROW(one(DynamicPad{}, {x, i64({4}, {-3, 0, 0, 0})}), Error);
  EXPECT_THROW(one(DynamicPad{}, {x, i64({4}, {INT64_MAX, 0, 0, 0})}), Error);
  EXPECT_THROW(one(DynamicPad{}, {x, i64({3}, {0, 0, 0})}), Error);
}

TEST(DynamicResize, ByScalesOrSizes) {
  DynamicResize op;
  op.resize.axes = {1};
  op.resize.coordinate = ResizeCoordinate::asymmetric;
  op.resize.nearest = ResizeNearest::floor;
  const Tensor row = f32({1, 2}, {1, 2}), twice = f32({1, 4}, {1, 1, 2, 2}), none;
  EXPECT_EQ(one(op, {row, none, f32({1}, {2}), none}), twice);
  EXPECT_EQ(one(op, {row, none, none, i64({1}, {4})}), twice);
  EXPECT_EQ(one(op, {row, none, f32({0}, {}), i64({1}, {4})}), twice);
  EXPECT_THROW(one(op, {row, none, f32({1}, {0}), none}), Error);
  EXPECT_THROW(one(op, {row, none, f32({1}, {1e30F}), none}), Error);
  EXPECT_THROW(one(op, {row, none, none, i64({1}, {-4})}), Error);
}

TEST(DynamicResize, KeepsTheRatio) {
  DynamicResize op;
  op.resize.axes = {0, 1};
  op.policy = ResizePolicy::not_larger;
  EXPECT_EQ(one(op, {x, Tensor(), Tensor(), i64({2}, {4, 3})}), x);
  op.policy = ResizePolicy::not_smaller;
  EXPECT_EQ(one(op, {x, Tensor(), Tensor(), i64({2}, {4, 3})}).dims(), (Dims{4, 6}));
}

TEST(DynamicOperators, SurviveTheirFields) {
  DynamicResize resize;
  resize.resize.mode = ResizeMode::cubic;
  resize.resize.axes = {2, 1};
  resize.policy = ResizePolicy::not_smaller;
  for (const Op& op : {Op(resize), Op(DynamicReduce{ReduceKind::prod, false, true, 3}), Op(DynamicPad{PadMode::wrap})})
    EXPECT_EQ(operators().make(op.name(), op.fields()), op);
}

}  // namespace
}  // namespace camshaft::ops::dynamic_test
