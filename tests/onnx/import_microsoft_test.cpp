// Operators of the domain com.microsoft, against values computed by hand.
#include <cmath>

#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_microsoft_test {
namespace {

Tensor run_microsoft(const std::string& op_type, const std::vector<Tensor>& inputs,
                     const std::vector<AttributeWriter>& attributes = {}) {
  return run_node(op_type, 17, inputs, attributes, "com.microsoft");
}

std::string error_of_node(const std::string& op_type, const std::vector<ShapeWriter>& inputs,
                          const std::vector<AttributeWriter>& attributes, ErrorCode code) {
  GraphWriter graph;
  std::vector<std::string> names;
  for (const ShapeWriter& shape : inputs) {
    names.emplace_back(1, static_cast<char>('a' + names.size()));
    graph.input(names.back(), DType::f32, shape);
  }
  graph.output("y", DType::f32).node(op_type, names, {"y"}, attributes, "com.microsoft");
  const Error e = import_error(ModelWriter().opset(17).opset(1, "com.microsoft").graph(graph).bytes());
  EXPECT_EQ(e.code(), code) << e.what();
  return e.what();
}

// Identity projections: query = key = value = x, one head of one element.
const Tensor identity = floats({1, 3}, {1, 1, 1});

TEST(ImportMicrosoft, AttentionMasksAreAdded) {
  const Tensor x = floats({1, 2, 1}, {0, 1});
  GraphWriter graph;
  graph.input("x", DType::f32, {"b", "l", 1}).input("m", DType::i32, {"b", "l"}).output("y", DType::f32);
  graph.initializer(TensorWriter("w", {1, 3}, std::vector<float>{1, 1, 1}));
  graph.node("Attention", {"x", "w", "", "m"}, {"y"}, {attr("num_heads", 1), attr("mask_filter_value", -1.0F)},
             "com.microsoft");
  const Graph imported = import_graph(graph, 17);
  EXPECT_EQ(type_of_output(imported), "f32[b, l, 1]");
  const Tensor mask = Tensor::of<int32_t>(DType::i32, {1, 2}, {1, 0});
  const double e = std::exp(1.0);
  // Scores of the two queries: (0, 0 - 1) and (0, 1 - 1).
  expect_near(run(imported, {x, mask}).at(0), {1, 2, 1}, {1 / (1 + e), 0.5});
}

TEST(ImportMicrosoft, AttentionIsCausalAndKeepsItsPast) {
  const Tensor x = floats({1, 2, 1}, {0, 4}), past = floats({2, 1, 1, 1, 1}, {0, 6});
  GraphWriter graph;
  graph.input("x", DType::f32, {1, "l", 1}).input("w", DType::f32, {1, 3}).input("p", DType::f32, {2, 1, 1, "p", 1});
  graph.output("y", DType::f32).output("n", DType::f32);
  graph.node("Attention", {"x", "w", "", "", "p"}, {"y", "n"}, {attr("num_heads", 1), attr("unidirectional", 1)},
             "com.microsoft");
  const Graph imported = import_graph(graph, 17);
  EXPECT_EQ(type_of_output(imported, 1), "f32[2, 1, 1, l + p, 1]");
  const auto results = run(imported, {x, identity, past});
  // The first query sees the past (value 6) and itself (0), with scores 0 and 0.
  EXPECT_NEAR(results[0].as<float>()[0], 3, 1e-5);
  expect_near(results[1], {2, 1, 1, 3, 1}, {0, 0, 4, 6, 0, 4});
}

TEST(ImportMicrosoft, MultiHeadAttentionWithBiasAndLengths) {
  GraphWriter graph;
  graph.input("q", DType::f32, {1, 1, 2}).input("k", DType::f32, {1, 3, 2}).input("v", DType::f32, {1, 3, 2});
  graph.input("b", DType::f32, {6}).input("n", DType::i32, {1}).output("y", DType::f32);
  graph.node("MultiHeadAttention", {"q", "k", "v", "b", "n"}, {"y"}, {attr("num_heads", 2)}, "com.microsoft");
  const Tensor zero = floats({1, 3, 2}, {0, 0, 0, 0, 0, 0}), v = floats({1, 3, 2}, {1, 2, 3, 4, 50, 60});
  const auto y = run(import_graph(graph, 17), {floats({1, 1, 2}, {1, 1}), zero, v, floats({6}, {0, 0, 0, 0, 10, 20}),
                                               Tensor::of<int32_t>(DType::i32, {1}, {2})});
  expect_near(y.at(0), {1, 1, 2}, {12, 23});
}

TEST(ImportMicrosoft, GroupQueryAttentionFillsTheBuffer) {
  // Buffer of 4 positions of which 2 are used, one new; equal scores average the values.
  GraphWriter graph;
  graph.input("q", DType::f32, {1, 1, 4}).input("pk", DType::f32, {1, 1, 4, 2}).input("pv", DType::f32, {1, 1, 4, 2});
  graph.input("n", DType::i32, {1}).input("t", DType::i32, {}).output("y", DType::f32).output("k", DType::f32);
  graph.output("v", DType::f32);
  graph.input("kk", DType::f32, {1, 1, 2}).input("vv", DType::f32, {1, 1, 2});
  graph.node("GroupQueryAttention", {"q", "kk", "vv", "pk", "pv", "n", "t"}, {"y", "k", "v"},
             {attr("num_heads", 2), attr("kv_num_heads", 1)}, "com.microsoft");
  const Tensor past = floats({1, 1, 4, 2}, {1, 2, 3, 4, 99, 99, 99, 99});
  const auto results =
      run(import_graph(graph, 17),
          {floats({1, 1, 4}, {0, 0, 0, 0}), past, past, Tensor::of<int32_t>(DType::i32, {1}, {2}),
           Tensor::of<int32_t>(DType::i32, {}, {3}), floats({1, 1, 2}, {7, 7}), floats({1, 1, 2}, {8, 9})});
  expect_near(results[0], {1, 1, 4}, {4, 5, 4, 5});
  expect_near(results[1], {1, 1, 4, 2}, {1, 2, 3, 4, 7, 7, 0, 0});
  expect_near(results[2], {1, 1, 4, 2}, {1, 2, 3, 4, 8, 9, 0, 0});
}

TEST(ImportMicrosoft, FusedMatMulTransposes) {
  const Tensor a = floats({2, 1, 3}, {1, 2, 3, 4, 5, 6}), b = floats({3, 1}, {1, 1, 1});
  expect_near(run_microsoft("FusedMatMul", {a, b}, {attr("alpha", 0.5F)}), {2, 1, 1}, {3, 7.5});
  // [m, batch, k] as [batch, m, k]
  expect_near(run_microsoft("FusedMatMul", {a, b}, {attr("transBatchA", 1)}), {1, 2, 1}, {6, 15});
  expect_near(run_microsoft("FusedMatMul", {floats({3}, {1, 2, 3}), b}, {attr("transA", 1)}), {1}, {6});
  expect_near(run_microsoft("TransposeMatMul", {b, b}, {attr("transA", 1)}), {1, 1}, {3});
}

TEST(ImportMicrosoft, FusionsWithActivations) {
  const Tensor x = floats({1, 1, 1, 3}, {-2, 0.5, 2}), w = floats({1, 1, 1, 1}, {1});
  expect_near(
      run_microsoft("FusedConv", {x, w}, {attr("activation", "Clip"), attr("activation_params", {-1.0F, 1.0F})}),
      {1, 1, 1, 3}, {-1, 0.5, 1});
  expect_near(run_microsoft("FusedConv", {x, w, floats({1}, {1}), x}, {attr("activation", "Relu")}), {1, 1, 1, 3},
              {0, 2, 5});
  expect_near(run_microsoft("FusedGemm", {floats({1, 1}, {-1}), floats({1, 1}, {3})},
                            {attr("activation", "LeakyRelu"), attr("activation_alpha", 0.5F)}),
              {1, 1}, {-1.5});
  EXPECT_NE(error_of_node("FusedGemm", {{1, 1}, {1, 1}}, {attr("activation", "Swoosh")}, ErrorCode::unsupported)
                .find("Swoosh"),
            std::string::npos);
}

TEST(ImportMicrosoft, EmbeddingsAndNormalisations) {
  GraphWriter graph;
  graph.input("ids", DType::i32, {"b", 2}).input("m", DType::i32, {"b", 2}).output("y", DType::f32);
  graph.output("n", DType::i32).output("s", DType::f32);
  graph.initializer(TensorWriter("words", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6}));
  graph.initializer(TensorWriter("positions", {4, 2}, std::vector<float>{0, 0, 10, 20, 0, 0, 0, 0}));
  graph.initializer(TensorWriter("g", {2}, std::vector<float>{1, 1}));
  graph.initializer(TensorWriter("z", {2}, std::vector<float>{0, 0}));
  graph.node("EmbedLayerNormalization", {"ids", "", "words", "positions", "", "g", "z", "m"}, {"y", "n", "s"}, {},
             "com.microsoft");
  const auto results = run(import_graph(graph, 17), {Tensor::of<int32_t>(DType::i32, {1, 2}, {2, 0}),
                                                     Tensor::of<int32_t>(DType::i32, {1, 2}, {1, 0})});
  expect_near(results[0], {1, 2, 2}, {-1, 1, -1, 1});
  EXPECT_EQ(results[1].to_ints(), (std::vector<int64_t>{1}));
  expect_near(results[2], {1, 2, 2}, {5, 6, 11, 22});
  const Tensor x = floats({1, 1, 2}, {1, 3});
  expect_near(run_microsoft("GroupNorm", {x, floats({2}, {1, 1}), floats({2}, {0, 0})},
                            {attr("groups", 1), attr("activation", 1), attr("epsilon", 0.0F)}),
              {1, 1, 2}, {-1 / (1 + std::exp(1.0)), 1 / (1 + std::exp(-1.0))});
}

TEST(ImportMicrosoft, SkipLayerNormalizationGivesItsStatistics) {
  const auto results_of = [](const std::string& op, const std::vector<std::string>& parameters) {
    GraphWriter graph;
    graph.input("x", DType::f32, {1, 1, 4}).input("s", DType::f32, {1, 1, 4});
    for (const char* output : {"y", "mean", "inverse", "sum"}) graph.output(output, DType::f32);
    graph.initializer(TensorWriter("g", {4}, std::vector<float>{1, 1, 1, 1}));
    graph.initializer(TensorWriter("z", {4}, std::vector<float>{0, 0, 0, 0}));
    std::vector<std::string> inputs{"x", "s", "g"};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    graph.node(op, inputs, {"y", "mean", "inverse", "sum"}, {attr("epsilon", 0.0F)}, "com.microsoft");
    return run(import_graph(graph, 17), {floats({1, 1, 4}, {1, 2, 3, 4}), floats({1, 1, 4}, {1, 1, 1, 1})});
  };
  const double deviation = std::sqrt(1.25), root_mean_square = std::sqrt(13.5);
  auto results = results_of("SkipLayerNormalization", {"z"});
  expect_near(results[0], {1, 1, 4}, {-1.5 / deviation, -0.5 / deviation, 0.5 / deviation, 1.5 / deviation});
  expect_near(results[1], {1, 1, 1}, {3.5});
  expect_near(results[2], {1, 1, 1}, {1 / deviation});
  expect_near(results[3], {1, 1, 4}, {2, 3, 4, 5});
  results = results_of("SkipSimplifiedLayerNormalization", {});
  expect_near(results[0], {1, 1, 4},
              {2 / root_mean_square, 3 / root_mean_square, 4 / root_mean_square, 5 / root_mean_square});
  expect_near(results[1], {1, 1, 1}, {0});
  expect_near(results[2], {1, 1, 1}, {1 / root_mean_square});
  expect_near(results[3], {1, 1, 4}, {2, 3, 4, 5});
}

TEST(ImportMicrosoft, NarrowWeightsTimesAVector) {
  // Two rows of sixteen numbers of four bits, less 8: all 1, and all 2.
  std::vector<uint8_t> bytes(16, 0x99);
  std::fill(bytes.begin() + 8, bytes.end(), uint8_t{0xAA});
  std::vector<float> ones(16, 1);
  const Tensor weights = Tensor::of<uint8_t>(DType::u8, {2, 1, 8}, bytes), scales = floats({2}, {1, 0.5});
  for (const Dims& dims : {Dims{16}, Dims{1, 16}, Dims{1, 1, 16}}) {
    Dims wanted = dims;
    wanted.back() = 2;
    expect_near(run_microsoft("MatMulNBits", {floats(dims, ones), weights, scales},
                              {attr("N", 2), attr("K", 16), attr("block_size", 16), attr("bits", 4)}),
                wanted, {16, 16});
  }
}

TEST(ImportMicrosoft, Others) {
  const Tensor x = floats({5}, {1, 2, 3, 4, 5});
  expect_near(run_microsoft("UnfoldTensor", {x}, {attr("size", 3), attr("step", 2)}), {2, 3}, {1, 2, 3, 3, 4, 5});
  expect_near(
      run_microsoft("CDist", {floats({1, 2}, {0, 0}), floats({2, 2}, {3, 4, 0, 1})}, {attr("metric", "euclidean")}),
      {1, 2}, {5, 1});
  expect_near(run_microsoft("ComplexMul", {floats({2}, {1, 2}), floats({2}, {3, 4})}), {2}, {-5, 10});
  expect_near(run_microsoft("ComplexMulConj", {floats({2}, {1, 2}), floats({2}, {3, 4})}), {2}, {11, 2});
  expect_near(run_microsoft("IsAllFinite", {x, floats({2}, {0, INFINITY})}), {}, {0});
  expect_near(run_microsoft("IsAllFinite", {x, floats({0}, {})}), {}, {1});
  expect_near(run_microsoft("BiasSplitGelu", {floats({2}, {3, 20}), floats({2}, {0, 0})}), {1}, {60});
  EXPECT_NE(error_of_node("GroupQueryAttention", {{1, 1, 4}, {1, 1, 4}, {1, 1, 4}, {}, {}, {1}, {}},
                          {attr("num_heads", 3), attr("kv_num_heads", 2)}, ErrorCode::invalid_model)
                .find("3 heads"),
            std::string::npos);
  EXPECT_NE(error_of_node("Attention", {{1, 2, 4}, {4, 12}}, {attr("num_heads", 3)}, ErrorCode::invalid_model)
                .find("3 heads do not divide 4"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_microsoft_test
