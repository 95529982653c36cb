// RNN, GRU and LSTM nodes.
#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_recurrent_test {
namespace {

// y(t) = activation(x(t) + y(t-1)/2) of one unit.
Tensor run_rnn(const Tensor& x, const std::vector<AttributeWriter>& attributes, int64_t opset = 14) {
  return run_node("RNN", opset, {x, floats({1, 1, 1}, {1}), floats({1, 1, 1}, {0.5})}, attributes);
}

TEST(ImportRecurrent, DirectionsAndLayouts) {
  const AttributeWriter identity = attr("activations", {"Affine"});
  const Tensor x = floats({3, 1, 1}, {1, 2, 4});
  expect_near(run_rnn(x, {identity}), {3, 1, 1, 1}, {1, 2.5, 5.25});
  expect_near(run_rnn(x, {identity, attr("direction", "reverse")}, 7), {3, 1, 1, 1}, {3, 4, 4});
  expect_near(run_rnn(floats({1, 3, 1}, {1, 2, 4}), {identity, attr("layout", 1)}), {1, 3, 1, 1}, {1, 2.5, 5.25});
  const Tensor both = run_node("RNN", 22, {x, floats({2, 1, 1}, {1, 1}), floats({2, 1, 1}, {0.5, 0.5})},
                               {attr("activations", {"Affine", "affine"}), attr("direction", "bidirectional")});
  expect_near(both, {3, 2, 1, 1}, {1, 3, 2.5, 4, 5.25, 4});
}

TEST(ImportRecurrent, AlphasAndBetasBelongToTheActivationsThatHaveThem) {
  // Forward: Relu (none), backward: Affine with alpha 2 and beta 1.
  const Tensor y = run_node("RNN", 14, {floats({1, 1, 1}, {3}), floats({2, 1, 1}, {1, 1}), floats({2, 1, 1}, {0, 0})},
                            {attr("activations", {"Relu", "Affine"}), attr("direction", "bidirectional"),
                             attr("activation_alpha", {2.0F}), attr("activation_beta", {1.0F})});
  expect_near(y, {1, 2, 1, 1}, {3, 7});
  // Defaults are those of the operator of the name.
  expect_near(run_rnn(floats({1, 1, 1}, {0.75}), {attr("activations", {"ThresholdedRelu"})}), {1, 1, 1, 1}, {0});
  expect_near(run_rnn(floats({1, 1, 1}, {-1}), {attr("activations", {"LeakyRelu"})}), {1, 1, 1, 1}, {-0.01});
}

TEST(ImportRecurrent, SymbolicTimeAndBatchAndOmittedOutputs) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"time", "batch", 2}).output("c", DType::f32);
  graph.initializer(TensorWriter("w", {2, 12, 2}, std::vector<float>(48, 0.1F)));
  graph.initializer(TensorWriter("r", {2, 12, 3}, std::vector<float>(72, 0.1F)));
  graph.node("LSTM", {"x", "w", "r"}, {"", "", "c"}, {attr("direction", "bidirectional"), attr("hidden_size", 3)});
  const Graph imported = import_graph(graph, 14);
  EXPECT_EQ(type_of_output(imported), "f32[2, batch, 3]");
  EXPECT_EQ(run(imported, {Tensor(DType::f32, {4, 2, 2})}).at(0).dims(), (Dims{2, 2, 3}));
}

TEST(ImportRecurrent, ActivationsOfTwoDirectionsForOne) {
  expect_near(run_rnn(floats({3, 1, 1}, {1, 2, 4}), {attr("activations", {"Affine", "Tanh"})}), {3, 1, 1, 1},
              {1, 2.5, 5.25});
}

TEST(ImportRecurrent, BadNodes) {
  const auto error = [](const std::vector<AttributeWriter>& attributes, const ShapeWriter& r = {1, 1, 1}) {
    GraphWriter graph;
    graph.input("x", DType::f32, {3, 1, 1}).input("w", DType::f32, {1, 1, 1}).input("r", DType::f32, r);
    graph.output("y", DType::f32).node("RNN", {"x", "w", "r"}, {"y"}, attributes);
    const Error e = import_error(ModelWriter().opset(14).graph(graph).bytes());
    EXPECT_EQ(e.code(), ErrorCode::invalid_model) << e.what();
    return std::string(e.what());
  };
  EXPECT_NE(error({attr("activations", {"Swoosh"})}).find("swoosh"), std::string::npos);
  EXPECT_NE(error({attr("activations", {"Tanh", "Tanh", "Tanh"})}).find("3 activations are given, 1 are needed"),
            std::string::npos);
  EXPECT_NE(error({attr("direction", "sideways")}).find("sideways"), std::string::npos);
  EXPECT_NE(error({attr("hidden_size", 4)}).find("hidden_size is 4"), std::string::npos);
  EXPECT_NE(error({attr("clip", -1.0F)}).find("clip"), std::string::npos);
  EXPECT_NE(error({attr("layout", 2)}).find("layout"), std::string::npos);
  EXPECT_NE(error({}, {1, 2, 2}).find("weights"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_recurrent_test
