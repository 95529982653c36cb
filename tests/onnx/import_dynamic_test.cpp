// Parameters of operators that are graph inputs: known only when running.
#include <fmt/format.h>

#include <numeric>

#include "import_test_util.h"

namespace camshaft::onnx::testing::import_dynamic_test {
namespace {

Tensor ints(const std::vector<int64_t>& values) {
  return Tensor::from_ints(values);
}

const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});

TEST(DynamicParameters, Reductions) {
  expect_near(run_node("ReduceSum", 13, {x, ints({1})}), {2, 1}, {6, 15});
  expect_near(run_node("ReduceSum", 13, {x, ints({1})}, {attr("keepdims", 0)}), {2}, {6, 15});
  expect_near(run_node("ReduceMax", 20, {x, ints({0, 1})}, {attr("keepdims", 0)}), {}, {6});
  expect_near(run_node("ReduceL2", 18, {floats({1, 2}, {3, 4}), ints({-1})}), {1, 1}, {5});
  expect_near(run_node("ReduceLogSumExp", 18, {floats({1, 2}, {0, 0}), ints({1})}, {attr("keepdims", 0)}), {1},
              {0.6931472});
  expect_near(run_node("ReduceSumSquare", 18, {x, ints({})}, {attr("noop_with_empty_axes", 1)}), {2, 3},
              {1, 4, 9, 16, 25, 36});
  expect_near(run_node("ReduceSum", 13, {x, ints({})}), {1, 1}, {21});
}

TEST(DynamicParameters, Shapes) {
  expect_near(run_node("Unsqueeze", 13, {x, ints({0, -1})}), {1, 2, 3, 1}, {1, 2, 3, 4, 5, 6});
  expect_near(run_node("Squeeze", 13, {x.reshaped({2, 1, 3}), ints({1})}), {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_near(run_node("Tile", 13, {floats({1, 2}, {1, 2}), ints({2, 1})}), {2, 2}, {1, 2, 1, 2});
  expect_near(run_node("Reshape", 14, {x, ints({0, -1, 1})}), {2, 3, 1}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_node("Reshape", 14, {floats({0, 3}, {}), ints({3, 0, 4})}, {attr("allowzero", 1)}).dims(),
            (Dims{3, 0, 4}));
  // No axes are none, and not all.
  expect_near(run_node("Pad", 19, {x, Tensor::from_ints({}), Tensor::scalar(DType::f32, 9), Tensor::from_ints({})}),
              x.dims(), x.to_doubles());
  expect_near(run_node("Pad", 19, {x, ints({1, 0}), Tensor::scalar(DType::f32, 9), ints({1})}), {2, 4},
              {9, 1, 2, 3, 9, 4, 5, 6});
  expect_near(run_node("CenterCropPad", 18, {x, ints({4, 1})}), {4, 1}, {0, 2, 5, 0});
}

TEST(DynamicParameters, PaddingNoAxesIsKnownToDoNothing) {
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::f32, {2, 3})
                                .initializer(TensorWriter("none", {0}, std::vector<int64_t>{}))
                                .output("y", DType::f32)
                                .node("Pad", {"x", "none", "", "none"}, {"y"});
  expect_near(run(import_graph(graph, 19), {x}).at(0), {2, 3}, {1, 2, 3, 4, 5, 6});
}

TEST(DynamicParameters, CenterCropPadOfKnownSizesIsSliceAndPad) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 5}).output("y", DType::f32);
  graph.initializer(TensorWriter("to", {1}, std::vector<int64_t>{2}));
  graph.node("CenterCropPad", {"x", "to"}, {"y"}, {attr("axes", {-1})});
  const Graph g = import_graph(graph, 18);
  EXPECT_EQ(op_names(g), std::vector<std::string>{"slice"});
  EXPECT_EQ(type_of_output(g), "f32[n, 2]");
  expect_near(run(g, {floats({1, 5}, {1, 2, 3, 4, 5})})[0], {1, 2}, {2, 3});
}

TEST(DynamicParameters, ResizeAndOneHot) {
  const Tensor image = floats({1, 1, 1, 2}, {1, 2});
  expect_near(run_node("Resize", 13, {image, floats({0}, {}), floats({4}, {1, 1, 1, 2})}), {1, 1, 1, 4}, {1, 1, 2, 2});
  expect_near(run_node("Upsample", 9, {image, floats({4}, {1, 1, 2, 1})}), {1, 1, 2, 2}, {1, 2, 1, 2});
  expect_near(run_node("OneHot", 11, {ints({1, -1}), Tensor::scalar(DType::i64, 3), floats({2}, {0, 1})}), {2, 3},
              {0, 1, 0, 0, 0, 1});
}

// Height and width are dynamic and the scale is no simple fraction.
TEST(DynamicParameters, ResizeOfDynamicSizesByAnyScale) {
  GraphWriter graph;
  graph.input("x", DType::f32, {1, 1, "h", "w"}).output("y", DType::f32);
  graph.initializer(TensorWriter("scales", {4}, std::vector<float>{1, 1, 1, 1.2345F}));
  graph.node("Resize", {"x", "", "scales"}, {"y"});
  const Tensor y = run(import_graph(graph, 13), {Tensor(DType::f32, {1, 1, 2, 100})})[0];
  EXPECT_EQ(y.dims(), (Dims{1, 1, 2, 123}));
}

TEST(DynamicParameters, SplitIntoSizesThatAreData) {
  GraphWriter graph;
  graph.input("x", DType::f32, {2, 3}).input("s", DType::i64, {2}).output("a", DType::f32).output("b", DType::f32);
  graph.node("Split", {"x", "s"}, {"a", "b"}, {attr("axis", 1)});
  const auto out = run(import_graph(graph, 13), {x, ints({2, 1})});
  expect_near(out[0], {2, 2}, {1, 2, 4, 5});
  expect_near(out[1], {2, 1}, {3, 6});
}

// Each slice of a symbolic size nests a maximum; what outgrows the limits of an expression is left to running.
TEST(DynamicParameters, ManySlicesOfSlices) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n"}).output("y100", DType::f32);
  graph.initializer(TensorWriter("one", {1}, std::vector<int64_t>{1}));
  graph.initializer(TensorWriter("back", {1}, std::vector<int64_t>{-1}));
  for (int i = 0; i <= 100; ++i)
    graph.node("Slice", {i ? fmt::format("y{}", i - 1) : "x", "one", "back"}, {fmt::format("y{}", i)});
  const Graph g = import_graph(graph, 13);
  std::vector<float> values(205);
  std::iota(values.begin(), values.end(), 0.0f);
  expect_near(run(g, {floats({205}, values)})[0], {3}, {101, 102, 103});
  expect_near(run(g, {floats({5}, {1, 2, 3, 4, 5})})[0], {0}, {});
}

// How many axes there are is data too: only what the model declares tells the rank.
TEST(DynamicParameters, DeclaredRanksTellWhatNothingElseDoes) {
  const auto model = [](const TypeWriter& declared) {
    GraphWriter graph;
    graph.input("x", DType::f32, {2, 3}).input("axes", DType::i64, {"n"}).output("y", declared);
    graph.node("ReduceSum", {"x", "axes"}, {"y"}, {attr("keepdims", 0)});
    return ModelWriter().opset(13).graph(graph).bytes();
  };
  const Graph g = import_bytes(model(TypeWriter::tensor(DType::f32, {any_dim}))).graph;
  expect_near(run(g, {x, ints({1})})[0], {2}, {6, 15});
  EXPECT_THROW(run(g, {x, ints({0, 1})}), Error);
  const Error e = import_error(model(TypeWriter::tensor(DType::f32)));
  EXPECT_EQ(e.code(), ErrorCode::unsupported);
  EXPECT_NE(std::string(e.what()).find("declare its shape in the model's value_info"), std::string::npos) << e.what();
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_dynamic_test
