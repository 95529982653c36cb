#include "onnx/convertible_nodes.h"

#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::convertible_nodes_test {
namespace {

std::vector<std::string> reasons(const GraphWriter& graph, int64_t opset = 17) {
  const std::string bytes = ModelWriter().opset(opset).graph(graph).bytes();
  const auto storage = std::make_shared<const std::string>(bytes);
  return refused_nodes(read_model(std::as_bytes(std::span(*storage)), "model.onnx", storage));
}

TEST(ConvertibleNodes, AllOfThem) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 2}).output("y", DType::f32);
  graph.node("Relu", {"x"}, {"h"}).node("Neg", {"h"}, {"y"});
  EXPECT_EQ(reasons(graph), (std::vector<std::string>{"", ""}));
}

TEST(ConvertibleNodes, WhatIsRefusedIsAnInputOfTheOthers) {
  GraphWriter graph;
  graph.input("x", DType::f32, {2}).output("y", DType::f32).output("h", DType::f32, {2});
  graph.node("Nonsense", {"x"}, {"h"}).node("Neg", {"h"}, {"y"});
  const std::vector<std::string> given = reasons(graph);
  ASSERT_EQ(given.size(), 2u);
  EXPECT_NE(given[0].find("Nonsense"), std::string::npos);
  EXPECT_EQ(given[1], "");
}

TEST(ConvertibleNodes, WhatHasNoTypeTakesItsReadersAlong) {
  GraphWriter graph;
  graph.input("x", DType::f32, {2}).output("y", DType::f32);
  graph.node("Nonsense", {"x"}, {"h"}).node("Neg", {"h"}, {"y"}).node("Neg", {"x"}, {"z"});
  const std::vector<std::string> given = reasons(graph);
  ASSERT_EQ(given.size(), 3u);
  EXPECT_NE(given[1].find("reads 'h'"), std::string::npos) << given[1];
  EXPECT_EQ(given[2], "");
}

TEST(ConvertibleNodes, ArgumentsAndOldOperatorSetsCount) {
  GraphWriter graph;
  graph.input("x", DType::f32, {2, 3}).output("y", DType::f32);
  graph.node("Softmax", {"x"}, {"h"}, {attr("axis", 7)}).node("Relu", {"x"}, {"y"});
  const std::vector<std::string> given = reasons(graph);
  EXPECT_NE(given.at(0), "");
  EXPECT_EQ(given.at(1), "");
}

}  // namespace
}  // namespace camshaft::onnx::testing::convertible_nodes_test
