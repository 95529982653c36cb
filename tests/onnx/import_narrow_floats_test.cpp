// Operators that are lowered to several steps keep f32 between them: f16 overflows at 65504.
#include <cmath>

#include "ir/ops/pointwise.h"
#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_narrow_floats_test {
namespace {

Tensor halves(const Dims& dims, float value) {
  ThreadPool pool(1);
  const Tensor wide = floats(dims, std::vector<float>(static_cast<size_t>(element_count(dims)), value));
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::f32, Shape(dims.begin(), dims.end())});
  graph.add_output("y", graph.add(ops::Cast{DType::f16}, {x}, "y"));
  return evaluate(graph, {wide}, pool)[0];
}

void expect_all(const Tensor& y, double expected) {
  EXPECT_EQ(y.dtype(), DType::f16);
  for (const double v : y.to_doubles()) EXPECT_NEAR(v, expected, std::abs(expected) * 1e-3);
}

TEST(ImportNarrowFloats, StepsDoNotOverflow) {
  const Tensor x = halves({1, 1, 400}, 300);
  expect_all(run_node("ReduceL2", 13, {x}, {attr("axes", {2})}), 6000);
  expect_all(run_node("ReduceLogSum", 13, {x}, {attr("axes", {2})}), std::log(120000.0));
  expect_all(run_node("LpNormalization", 22, {x}, {attr("axis", 2)}), 0.05);
  expect_all(run_node("LpNormalization", 22, {x}, {attr("axis", 2), attr("p", 1)}), 0.0025);
  expect_all(run_node("LpPool", 18, {x}, {attr("kernel_shape", {4}), attr("strides", {4})}), 600);
  expect_all(run_node("GlobalLpPool", 13, {x}), 6000);
  const Tensor large = halves({2}, 30000);
  expect_all(run_node("Mean", 13, {large, large, large, large}), 30000);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_narrow_floats_test
