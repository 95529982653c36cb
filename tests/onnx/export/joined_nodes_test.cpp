// Nodes that ONNX has one operator for are written as one, and read back as they were; what is not the same stays
// apart.
#include "onnx/export/joined_nodes.h"

#include "onnx/export/export_test.h"
#include "reference/random_tensor.h"
#include "test_random.h"

namespace camshaft::onnx::joined_nodes_test {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

using Types = std::vector<std::string>;

/// Checks the operators that a graph is written as, and that its results stay.
void expect_written(const std::string& text, const Types& types, const std::vector<Dims>& inputs = {}) {
  SCOPED_TRACE(text);
  const Graph graph = graph_of(text);
  EXPECT_EQ(operators_of(export_model(graph)), types);
  Random random = test_random();
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    tensors.push_back(random_tensor(random, graph.type(graph.inputs[i]).dtype, inputs.at(i)));
  expect_same(graph, tensors);
}

TEST(JoinedNodes, ProductsTakeTheirBias) {
  const auto graph = [](const std::string& product, const std::string& bias, const std::string& sum) {
    return "graph (%x: f32[n, 4], %b: f32" + bias + ") {\nconst %w: f32[4, 3] = 0.5\n%p = matmul " + product +
           "\n%y = pointwise {function=add} " + sum + "\nreturn %y\n}";
  };
  const std::string plain = "{transpose_a=false, transpose_b=false} (%x, %w)";
  const std::vector<std::pair<std::string, Dims>> biases = {{"[3]", {3}},       {"[1]", {1}},       {"[]", {}},
                                                            {"[1, 3]", {1, 3}}, {"[n, 1]", {2, 1}}, {"[n, 3]", {2, 3}}};
  for (const auto& [type, dims] : biases) {
    expect_written(graph(plain, type, "(%p, %b)"), {"Gemm"}, {{2, 4}, dims});
    expect_written(graph(plain, type, "(%b, %p)"), {"Gemm"}, {{2, 4}, dims});
  }
  expect_written(graph(plain, "[3]", "(%p, %b)"), {"Gemm"}, {{0, 4}, {3}});
  // The sum would be larger than the product.
  expect_written(graph(plain, "[5, 1, 3]", "(%p, %b)"), {"MatMul", "Add"}, {{2, 4}, {5, 1, 3}});
  expect_written(graph(plain, "[1, 1, 3]", "(%p, %b)"), {"MatMul", "Add"}, {{2, 4}, {1, 1, 3}});
}

TEST(JoinedNodes, TransposedProductsTakeTheirBias) {
  const Graph graph = graph_of(
      "graph (%a: f32[4, 2], %b: f32[3, 4], %c: f32[3]) {\n"
      "%p = matmul {transpose_a=true, transpose_b=true} (%a, %b)\n"
      "%y = pointwise {function=add} (%p, %c)\nreturn %y\n}");
  const ModelProto model = export_model(graph);
  ASSERT_EQ(operators_of(model), Types{"Gemm"});
  EXPECT_EQ(model.graph.nodes[0].find_attribute("transA")->i, 1);
  EXPECT_EQ(model.graph.nodes[0].find_attribute("transB")->i, 1);
  Random random = test_random();
  expect_same(graph, {random_tensor(random, DType::f32, {4, 2}), random_tensor(random, DType::f32, {3, 4}),
                      random_tensor(random, DType::f32, {3})});
}

TEST(JoinedNodes, ProductsOfOthersStayApart) {
  const std::string plain = " {transpose_a=false, transpose_b=false} ";
  // Of more axes than a matrix has, of integers, and read elsewhere, too.
  expect_written("graph (%x: f32[2, n, 4], %b: f32[3]) {\nconst %w: f32[4, 3] = 0.5\n%p = matmul" + plain +
                     "(%x, %w)\n%y = pointwise {function=add} (%p, %b)\nreturn %y\n}",
                 {"MatMul", "Add"}, {{2, 3, 4}, {3}});
  expect_written("graph (%x: i32[n, 4], %b: i32[3]) {\nconst %w: i32[4, 3] = 2\n%p = matmul" + plain +
                     "(%x, %w)\n%y = pointwise {function=add} (%p, %b)\nreturn %y\n}",
                 {"MatMul", "Add"}, {{2, 4}, {3}});
  expect_written("graph (%x: f32[n, 4], %b: f32[3]) {\nconst %w: f32[4, 3] = 0.5\n%p = matmul" + plain +
                     "(%x, %w)\n%y = pointwise {function=add} (%p, %b)\nreturn %y, %p\n}",
                 {"MatMul", "Add"}, {{2, 4}, {3}});
}

TEST(JoinedNodes, ScaleAndShiftOfChannelsAreABatchNormalization) {
  const auto graph = [](const std::string& x, const std::string& numbers, const std::string& more = "") {
    return "graph (%x: f32" + x + ") {\nconst %s: f32" + numbers + " = 0.75\nconst %t: f32" + numbers +
           " = -3\n%m = pointwise {function=mul} (%x, %s)\n%y = pointwise {function=add} (%m, %t)\nreturn %y" + more +
           "\n}";
  };
  expect_written(graph("[n, 3, h, w]", "[3, 1, 1]"), {"BatchNormalization"}, {{2, 3, 4, 5}});
  expect_written(graph("[n, 3, 4]", "[1, 3, 1]"), {"BatchNormalization"}, {{2, 3, 4}});
  expect_written(graph("[n, 3]", "[3]"), {"BatchNormalization"}, {{0, 3}});
  expect_written(graph("[n, 3, 3]", "[3]"), {"Mul", "Add"}, {{2, 3, 3}});             // of another axis
  expect_written(graph("[n, 3, 4]", "[3, 4]"), {"Mul", "Add"}, {{2, 3, 4}});          // of two
  expect_written(graph("[n, 3, 4]", "[]"), {"Mul", "Add"}, {{2, 3, 4}});              // the same for all
  expect_written(graph("[n, 3, 4]", "[3, 1]", ", %m"), {"Mul", "Add"}, {{2, 3, 4}});  // read elsewhere
}

TEST(JoinedNodes, InfiniteFactorsStayApart) {
  const std::string text =
      "graph (%x: f32[n, 3]) {\nconst %s: f32[3] = inf\nconst %t: f32[3] = 1\n"
      "%m = pointwise {function=mul} (%x, %s)\n%y = pointwise {function=add} (%m, %t)\nreturn %y\n}";
  EXPECT_EQ(operators_of(export_model(graph_of(text))), (Types{"Mul", "Add"})) << "0 · inf would be NaN";
}

TEST(JoinedNodes, SlicesSideBySideAreASplit) {
  const auto slice = [](const std::string& name, int64_t start, int64_t count, const std::string& more = "axes=[1]") {
    return "%" + name + " = slice {" + more + ", starts=shape(" + std::to_string(start) + "), counts=shape(" +
           std::to_string(count) + "), steps=[1]} (%x)\n";
  };
  const auto graph = [](const std::string& statements, const std::string& outputs) {
    return "graph (%x: f32[n, 6]) {\n" + statements + "return " + outputs + "\n}";
  };
  expect_written(graph(slice("a", 0, 2) + slice("b", 2, 4), "%a, %b"), {"Split"}, {{3, 6}});
  expect_written(graph(slice("b", 2, 4) + slice("a", 0, 2), "%a, %b"), {"Split"}, {{3, 6}});  // whatever their order
  expect_written(graph(slice("a", 1, 2) + slice("b", 4, 1), "%a, %b"), {"Split"}, {{3, 6}});  // and what lies between
  expect_written(graph(slice("a", 0, 2), "%a"), {"Slice"}, {{3, 6}});
  expect_written(graph(slice("a", 0, 3) + slice("b", 2, 4), "%a, %b"), {"Slice", "Slice"}, {{3, 6}});
}

TEST(JoinedNodes, AnElementOfAnAxisIsGathered) {
  const auto graph = [](const std::string& start, const std::string& shape) {
    return "graph (%x: f32[n, 6, 4]) {\n%s = slice {axes=[1], starts=shape(" + start +
           "), counts=shape(1), steps=[1]} (%x)\n%y = reshape {shape=shape(" + shape + ")} (%s)\nreturn %y\n}";
  };
  expect_written(graph("2", "n, 4"), {"Gather"}, {{3, 6, 4}});
  expect_written(graph("5", "n, 4"), {"Gather"}, {{0, 6, 4}});
  expect_written(graph("2", "n, 2, 2"), {"Slice", "Reshape"}, {{3, 6, 4}});
  expect_written(graph("2", "n, 1, 1, 4"), {"Slice", "Reshape"}, {{3, 6, 4}});
  // The last one of a size that is not known, and two from one tensor.
  expect_written(
      "graph (%x: f32[n, 4]) {\n%s = slice {axes=[0], starts=shape(n - 1), counts=shape(1), steps=[1]} (%x)\n"
      "%y = reshape {shape=shape(4)} (%s)\nreturn %y\n}",
      {"Gather"}, {{3, 4}});
  expect_written(
      "graph (%x: f32[2, 4]) {\n%s = slice {axes=[0], starts=shape(0), counts=shape(1), steps=[1]} (%x)\n"
      "%t = slice {axes=[0], starts=shape(1), counts=shape(1), steps=[1]} (%x)\n"
      "%y = reshape {shape=shape(4)} (%s)\n%z = reshape {shape=shape(4)} (%t)\nreturn %y, %z\n}",
      {"Gather", "Gather"}, {{2, 4}});
}

TEST(JoinedNodes, BlocksOfPixelsBecomeChannelsAndBack) {
  const auto graph = [](const std::string& x, const std::string& split, const std::string& order,
                        const std::string& to) {
    return "graph (%x: f32[" + x + "]) {\n%s = reshape {shape=shape(" + split +
           ")} (%x)\n%t = transpose {permutation=[" + order + "]} (%s)\n%y = reshape {shape=shape(" + to +
           ")} (%t)\nreturn %y\n}";
  };
  expect_written(graph("n, 12, h, w", "n, 2, 2, 3, h, w", "0, 3, 4, 1, 5, 2", "n, 3, 2*h, 2*w"), {"DepthToSpace"},
                 {{2, 12, 3, 5}});
  expect_written(graph("n, 12, h, w", "n, 3, 2, 2, h, w", "0, 1, 4, 2, 5, 3", "n, 3, 2*h, 2*w"), {"DepthToSpace"},
                 {{2, 12, 3, 5}});
  expect_written(graph("n, 3, 4, 6", "n, 3, 2, 2, 3, 2", "0, 3, 5, 1, 2, 4", "n, 12, 2, 3"), {"SpaceToDepth"},
                 {{2, 3, 4, 6}});
  // Blocks that are no squares, and another order.
  expect_written(graph("2, 12, 3, 5", "2, 3, 2, 2, 3, 5", "0, 1, 4, 3, 5, 2", "2, 3, 6, 10"),
                 {"Reshape", "Transpose", "Reshape"}, {{2, 12, 3, 5}});
  expect_written(graph("2, 12, 3, 5", "2, 3, 1, 4, 3, 5", "0, 1, 4, 2, 5, 3", "2, 3, 3, 20"),
                 {"Reshape", "Transpose", "Reshape"}, {{2, 12, 3, 5}});
}

TEST(JoinedNodes, SplitsStandBeforeAllThatReadThem) {
  expect_written(
      "graph (%x: f32[n, 6]) {\n"
      "%a = slice {axes=[1], starts=shape(0), counts=shape(3), steps=[1]} (%x)\n"
      "%c = pointwise {function=neg} (%a)\n"
      "%b = slice {axes=[1], starts=shape(3), counts=shape(3), steps=[1]} (%x)\n"
      "%y = pointwise {function=mul} (%c, %b)\nreturn %y\n}",
      {"Split", "Neg", "Mul"}, {{2, 6}});
}

}  // namespace
}  // namespace camshaft::onnx::joined_nodes_test
