// Nodes that ONNX has one operator for are written as one, and read back as they were; what is not the same stays
// apart.
#include "onnx/export/joined_nodes.h"

#include <cmath>
#include <limits>

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

TEST(JoinedNodes, RootsOfSumsOfSquaresAreLengths) {
  const auto graph = [](const std::string& type, const std::string& kind, const std::string& more = "") {
    return "graph (%x: " + type + "[n, 6]) {\n%s = reduce {kind=" + kind +
           ", axes=[1], keep_dims=false} (%x)\n%y = pointwise {function=sqrt} (%s)\nreturn %y" + more + "\n}";
  };
  expect_written(graph("f32", "sum_squares"), {"ReduceL2"}, {{3, 6}});
  expect_written(graph("f64", "sum_squares"), {"ReduceL2"}, {{0, 6}});
  expect_written(graph("f16", "sum_squares"), {"ReduceSumSquare", "Sqrt"}, {{3, 6}});
  expect_written(graph("f32", "sum_abs"), {"ReduceL1", "Sqrt"}, {{3, 6}});
  expect_written(graph("f32", "sum_squares", ", %s"), {"ReduceSumSquare", "Sqrt"}, {{3, 6}});  // read elsewhere
}

// log of sums of exponentials along axis 1, as the importer spells it.
std::string log_sum_exp(const std::string& maximum_of, const std::string& end) {
  return "graph (%x: f32[n, 6]) {\nconst %z: f32[] = 0\n%m = reduce {kind=max, axes=[1], keep_dims=true} (" +
         maximum_of +
         ")\n%a = pointwise {function=abs} (%m)\n%i = pointwise {function=is_inf_pos} (%a)\n"
         "%s = pointwise {function=select} (%i, %z, %m)\n%d = pointwise {function=sub} (%x, %s)\n"
         "%e = pointwise {function=exp} (%d)\n%t = reduce {kind=sum, axes=[1], keep_dims=true} (%e)\n"
         "%l = pointwise {function=log} (%t)\n%k = pointwise {function=add} (%l, %s)\n" +
         end + "\n}";
}

TEST(JoinedNodes, LogarithmsOfSumsOfExponentialsAreOneReduction) {
  const std::string dropped = "%y = reshape {shape=shape(n)} (%k)\nreturn %y";
  expect_written(log_sum_exp("%x", "return %k"), {"ReduceLogSumExp"}, {{3, 6}});
  expect_written(log_sum_exp("%x", dropped), {"ReduceLogSumExp"}, {{3, 6}});
  expect_written(log_sum_exp("%x", dropped), {"ReduceLogSumExp"}, {{0, 6}});
  // What is kept is read elsewhere, too; and a reshape to something else.
  expect_written(log_sum_exp("%x", "%y = reshape {shape=shape(n)} (%k)\nreturn %y, %k"), {"ReduceLogSumExp", "Reshape"},
                 {{3, 6}});
  expect_written(log_sum_exp("%x", "%y = reshape {shape=shape(1, n)} (%k)\nreturn %y"), {"ReduceLogSumExp", "Reshape"},
                 {{3, 6}});
  const float inf = std::numeric_limits<float>::infinity();
  expect_same(
      graph_of(log_sum_exp("%x", dropped)),
      {Tensor::of<float>(DType::f32, {3, 6},
                         {1, inf, 3, -inf, 5, 6, -inf, -inf, -inf, -inf, -inf, -inf, 88, -90, 0.5, 88, 2, NAN})});
}

TEST(JoinedNodes, OtherSumsOfExponentialsStayApart) {
  const Types parts{"ReduceMax", "Abs", "IsInf", "Where", "Sub", "Exp", "ReduceSum", "Log", "Add"};
  // The largest of something else, and an inner value that is read elsewhere.
  Types of_other = parts;
  of_other.insert(of_other.begin(), "Neg");
  std::string text = log_sum_exp("%n", "return %k");
  text.insert(text.find("%m ="), "%n = pointwise {function=neg} (%x)\n");
  expect_written(text, of_other, {{3, 6}});
  expect_written(log_sum_exp("%x", "return %k, %e"), parts, {{3, 6}});
}

// Which of four positions an index is, along the axis of `column` that has one element, as the importer spells it.
std::string one_hot(const std::string& column, const std::string& along, const std::string& more = "",
                    const std::string& type = "i64", const std::string& depth = "4") {
  return "graph (%x: i64[n, 3]) {\nconst %z: i64[] = 0\nconst %depth: i64[] = " + depth + "\nconst %p: i64[" + along +
         "] = [0, 1, 2, 3]\nconst %on: " + type + "[] = 5\nconst %off: " + type + "[] = 2\n%c = reshape {shape=shape(" +
         column +
         ")} (%x)\n%l = pointwise {function=less} (%c, %z)\n%w = pointwise {function=add} (%c, %depth)\n"
         "%i = pointwise {function=select} (%l, %w, %c)\n%h = pointwise {function=equal} (%i, %p)\n"
         "%y = pointwise {function=select} (%h, %on, %off)\nreturn %y" +
         more + "\n}";
}

TEST(JoinedNodes, ComparisonsWithPositionsAreOneHot) {
  const Tensor indices = Tensor::of<int64_t>(DType::i64, {2, 3}, {0, 3, -1, -4, 4, -5});
  for (const std::string type : {"i64", "f32"})
    for (const auto& [column, along] : {std::pair("n, 3, 1", "4"), {"n, 1, 3", "1, 4, 1"}, {"1, n, 3", "4, 1, 1"}}) {
      SCOPED_TRACE(column);
      if (std::string(along) == "4") {  // of another rank: stays apart
        EXPECT_NE(operators_of(export_model(graph_of(one_hot(column, along, "", type)))), Types{"OneHot"});
        continue;
      }
      const Graph graph = graph_of(one_hot(column, along, "", type));
      EXPECT_EQ(operators_of(export_model(graph)), Types{"OneHot"});
      expect_same(graph, {indices});
    }
  const Graph last = graph_of(one_hot("n, 3, 1", "1, 1, 4"));
  EXPECT_EQ(operators_of(export_model(last)), Types{"OneHot"});
  expect_same(last, {indices});
}

TEST(JoinedNodes, OtherComparisonsStayApart) {
  const Types parts{"Reshape", "Less", "Add", "Where", "Equal", "Where"};
  const auto written = [](const std::string& text) { return operators_of(export_model(graph_of(text))); };
  EXPECT_EQ(written(one_hot("n, 3, 1", "1, 1, 4", ", %h")), parts);          // read elsewhere
  EXPECT_EQ(written(one_hot("n, 3, 1", "1, 1, 4", "", "i64", "5")), parts);  // of another depth
  EXPECT_EQ(written(one_hot("n, 3, 1", "1, 1, 4", "", "f64")), parts);       // of a type without kernels
  std::string shifted = one_hot("n, 3, 1", "1, 1, 4");
  shifted.replace(shifted.find("[0, 1, 2, 3]"), 12, "[1, 2, 3, 4]");
  EXPECT_EQ(written(shifted), parts);
}

}  // namespace
}  // namespace camshaft::onnx::joined_nodes_test
