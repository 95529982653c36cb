#include "ir/ops/reduce.h"
#include "ir/ops/small_tensors.h"

namespace camshaft::ops::normalize_test {
namespace {

TEST(Normalize, ShapeRules) {
  Graph graph;
  const Dim n = Dim::symbol("n");
  const ValueId x = graph.add_input("x", {DType::f32, {n, 6, 4}}), i = graph.add_input("i", {DType::i32, {4}});
  const ValueId six = graph.add_input("s", {DType::f32, {6}});
  const TensorType same{DType::f32, {n, 6, 4}};
  EXPECT_EQ(graph.type(graph.add(Softmax{2}, {x}, "y")), same);
  EXPECT_EQ(graph.type(graph.add(GroupNorm{3}, {x, six}, "y")), same);
  EXPECT_NE(error_of([&] { graph.add(Softmax{0}, {i}, "y"); }).find("floating"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Softmax{3}, {x}, "y"); }).find("rank 3"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(LayerNorm{2}, {x, six}, "y"); }).find("f32[4]"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(GroupNorm{4}, {x}, "y"); }).find("4 groups do not divide"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::normalize_test
