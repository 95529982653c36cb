#include "ir/ops/move.h"

#include "ir/ops/small_tensors.h"

namespace camshaft::ops::move_test {
namespace {

TEST(Reshape, ElementCountsThatCannotAgree) {
  Graph graph;
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const ValueId x = graph.add_input("x", {DType::f32, {n, 4, 6}});
  EXPECT_EQ(graph.shape(graph.add(Reshape{{n, 24}}, {x}, "a")), (Shape{n, 24}));
  EXPECT_EQ(graph.shape(graph.add(Reshape{{m, 24}}, {x}, "b")), (Shape{m, 24}));  // undecided: accepted
  EXPECT_NE(error_of([&] {
              graph.add(Reshape{{n, 16}}, {x}, "c");
            }).find("24*n elements against 16*n"),
            std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Reshape{{n, 24, 2}}, {x}, "d"); }).find("cannot reshape"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Reshape{{Dim(24) * n + Dim(1)}}, {x}, "e"); }).find("cannot reshape"),
            std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Reshape{{-2}}, {x}, "f"); }).find("negative"), std::string::npos);
}

TEST(Concat, ShapeRules) {
  Graph graph;
  const Dim n = Dim::symbol("n"), m = Dim::symbol("m");
  const ValueId a = graph.add_input("a", {DType::f32, {n, m}}), b = graph.add_input("b", {DType::f32, {4, 3}});
  const ValueId c = graph.add_input("c", {DType::f32, {5, 3}}), d = graph.add_input("d", {DType::i64, {5, 3}});
  EXPECT_EQ(graph.shape(graph.add(Concat{1}, {a, b}, "y")), (Shape{4, m + Dim(3)}));
  EXPECT_NE(error_of([&] { graph.add(Concat{1}, {b, c}, "y"); }).find("axis 0"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Concat{0}, {c, d}, "y"); }).find("i64"), std::string::npos);
  EXPECT_NE(error_of([&] { graph.add(Concat{2}, {b, c}, "y"); }).find("axis 2"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::move_test
