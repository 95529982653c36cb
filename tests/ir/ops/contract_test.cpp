#include "ir/ops/contract.h"

#include "ir/ops/small_tensors.h"

namespace camshaft::ops::contract_test {
namespace {

TEST(MatMul, ShapeRule) {
  Graph graph;
  const Dim n = Dim::symbol("n"), s = Dim::symbol("s");
  const ValueId a = graph.add_input("a", {DType::f32, {n, 1, s, 8}}), b = graph.add_input("b", {DType::f32, {4, s, 8}});
  EXPECT_EQ(graph.type(graph.add(MatMul{false, true}, {a, b}, "y")), (TensorType{DType::f32, {n, 4, s, s}}));
  const ValueId bad = graph.add_input("c", {DType::f32, {9, 2}});
  EXPECT_NE(error_of([&] { graph.add(MatMul{}, {a, bad}, "y"); }).find("8 and 9"), std::string::npos);
  const ValueId vector = graph.add_input("v", {DType::f32, {8}});
  EXPECT_NE(error_of([&] { graph.add(MatMul{}, {a, vector}, "y"); }).find("ranks 4 and 1"), std::string::npos);
}

TEST(Conv, ShapeRule) {
  Graph graph;
  const Dim n = Dim::symbol("n"), h = Dim::symbol("h");
  const ValueId x = graph.add_input("x", {DType::f32, {n, 6, h, 32}}),
                w = graph.add_input("w", {DType::f32, {8, 3, 3, 3}});
  EXPECT_EQ(graph.type(graph.add(Conv{{2, 1}, {1, 1, 1, 1}, {1, 1}, 2}, {x, w}, "y")),
            (TensorType{DType::f32, {n, 8, floor_div(h - Dim(1), 2) + Dim(1), 32}}));
  const auto message = [&](const Conv& op) { return error_of([&] { graph.add(op, {x, w}, "y"); }); };
  EXPECT_NE(message(Conv{{1, 1}, {0, 0, 0, 0}, {1, 1}, 1}).find("6 channels, the weights take 3"), std::string::npos);
  EXPECT_NE(message(Conv{{1, 1}, {0, 0}, {1, 1}, 2}).find("4 pads, got 2"), std::string::npos);
  EXPECT_NE(message(Conv{{0, 1}, {0, 0, 0, 0}, {1, 1}, 2}).find("must be positive"), std::string::npos);
  EXPECT_NE(message(Conv{{1, 1}, {0, 0, 0, 0}, {1, 40}, 2}).find("a window of 81 does not fit"), std::string::npos);
  const ValueId u = graph.add_input("u", {DType::f32, {6, 4, 2, 2}});
  EXPECT_EQ(graph.type(graph.add(ConvTranspose{{2, 2}, {0, 0, 0, 0}, {1, 1}, {0, 0}, 3}, {x, u}, "y")),
            (TensorType{DType::f32, {n, 12, Dim(2) * h, 64}}));
}

}  // namespace
}  // namespace camshaft::ops::contract_test
