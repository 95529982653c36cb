#include "ir/ops/pointwise.h"

#include "ir/ops/small_tensors.h"

namespace camshaft::ops::pointwise_test {
namespace {

using F = ScalarFunction;

TEST(Pointwise, ShapeRule) {
  Graph graph;
  const Dim n = Dim::symbol("n");
  const ValueId a = graph.add_input("a", {DType::f32, {n, 1, 3}});
  const ValueId b = graph.add_input("b", {DType::f32, {5, 1}});
  const ValueId i = graph.add_input("i", {DType::i32, {5, 1}});
  EXPECT_EQ(graph.type(graph.add(Pointwise{F::add}, {a, b}, "y")), (TensorType{DType::f32, {n, 5, 3}}));
  EXPECT_EQ(graph.type(graph.add(Pointwise{F::less}, {a, b}, "y")), (TensorType{DType::boolean, {n, 5, 3}}));
  EXPECT_NE(error_of([&] { graph.add(Pointwise{F::add}, {a, i}, "y"); }).find("must be i32"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Pointwise{F::exp}, {i}, "y"); }).find("floating"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Pointwise{F::logical_and}, {i, i}, "y"); }).find("bool"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Pointwise{F::add}, {a}, "y"); }).find("2 inputs"), std::string::npos);
  const ValueId four = graph.add_input("four", {DType::f32, {4}});
  EXPECT_NE(error_of([&] {
              graph.add(Pointwise{F::add}, {a, four}, "y");
            }).find("cannot broadcast"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::pointwise_test
