#include "ir/ops/reduce.h"

#include "ir/ops/small_tensors.h"

namespace camshaft::ops::reduce_test {
namespace {

TEST(Reduce, ShapeRule) {
  Graph graph;
  const Dim n = Dim::symbol("n");
  const ValueId x = graph.add_input("x", {DType::f32, {n, 3, 4}});
  EXPECT_EQ(graph.type(graph.add(Reduce{ReduceKind::sum, {1, 2}, false}, {x}, "y")), (TensorType{DType::f32, {n}}));
  EXPECT_EQ(graph.type(graph.add(Reduce{ReduceKind::sum, {0, 2}, true}, {x}, "y")),
            (TensorType{DType::f32, {1, 3, 1}}));
  EXPECT_NE(error_of([&] {
              graph.add(Reduce{ReduceKind::sum, {3}, true}, {x}, "y");
            }).find("rank 3"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              graph.add(Reduce{ReduceKind::sum, {1, 1}, true}, {x}, "y");
            }).find("sorted"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::reduce_test
