#include "ir/ops/resize.h"

#include "ir/ops/small_tensors.h"

namespace camshaft::ops::resize_test {
namespace {

TEST(Resize, SymbolicSizes) {
  Graph graph;
  const Dim h = Dim::symbol("h");
  const ValueId x = graph.add_input("x", {DType::f32, {1, 3, h, 8}});
  const ValueId y = graph.add(Resize{.axes = {2, 3}, .sizes = {Dim(2) * h, 16}, .scales = {2, 2}}, {x}, "y");
  EXPECT_EQ(graph.shape(y), (Shape{1, 3, Dim(2) * h, 16}));
}

}  // namespace
}  // namespace camshaft::ops::resize_test
