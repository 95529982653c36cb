#include "builder/reduce_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "onnx/model_writer.h"
#include "onnx/proto_reader.h"
#include "onnx/proto_writer.h"

namespace camshaft::reduce_model_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

bool has(const onnx::ModelProto& model, const std::string& op_type) {
  return std::any_of(model.graph.nodes.begin(), model.graph.nodes.end(),
                     [&](const onnx::NodeProto& node) { return node.op_type == op_type; });
}

// A chain of 40 operators with a Sin and a Cos far apart, and a weight that only the Sin's neighbour reads.
class ReduceModel : public ::testing::Test {
 protected:
  ReduceModel() {
    GraphWriter graph("chain");
    graph.input("x", DType::f32, {2}).output("v39", DType::f32, {2});
    graph.initializer(TensorWriter("w", {2}, std::vector<float>{1, 2}));
    for (int i = 0; i < 40; ++i) {
      const std::string from = i == 0 ? "x" : "v" + std::to_string(i - 1), to = "v" + std::to_string(i);
      if (i == 7) {
        graph.node("Sin", {from}, {to});
      } else if (i == 8) {
        graph.node("Add", {from, "w"}, {to});
      } else if (i == 31) {
        graph.node("Cos", {from}, {to});
      } else {
        graph.node("Neg", {from}, {to});
      }
    }
    bytes_ = ModelWriter().opset(17).graph(graph).bytes();
    whole_.model = onnx::read_model(std::as_bytes(std::span(bytes_)), "chain.onnx");
    whole_.inputs["x"] = Tensor::of<float>(DType::f32, {2}, {0.5F, -1});
  }

  ModelOnInputs reduce(const std::function<bool(const ModelOnInputs&)>& fails) {
    ThreadPool pool(1);
    return reduce_model(whole_, fails, pool);
  }

  std::string bytes_;
  ModelOnInputs whole_;
};

TEST_F(ReduceModel, FindsTheOneNode) {
  const ModelOnInputs small = reduce([](const ModelOnInputs& part) { return has(part.model, "Cos"); });
  ASSERT_EQ(small.model.graph.nodes.size(), 1u);
  EXPECT_EQ(small.model.graph.nodes[0].op_type, "Cos");
  ASSERT_EQ(small.model.graph.inputs.size(), 1u);
  EXPECT_EQ(small.model.graph.inputs[0].name, "v30");
  EXPECT_EQ(small.model.graph.outputs[0].name, "v31");
  EXPECT_TRUE(small.model.graph.initializers.empty());
  // sin(0.5) after seven Neg is -sin(0.5); + 1, and 22 times Neg.
  EXPECT_NEAR(small.inputs.at("v30").to_doubles()[0], 1 - std::sin(0.5), 1e-6);
}

TEST_F(ReduceModel, KeepsNodesThatFailOnlyTogether) {
  const ModelOnInputs small =
      reduce([](const ModelOnInputs& part) { return has(part.model, "Cos") && has(part.model, "Add"); });
  EXPECT_EQ(small.model.graph.nodes.size(), 2u);
  EXPECT_EQ(small.model.graph.initializers.size(), 1u);
  EXPECT_EQ(small.model.graph.outputs.size(), 2u);
  const std::string bytes = onnx::model_bytes(small.model);  // a model that can be read
  EXPECT_EQ(onnx::read_model(std::as_bytes(std::span(bytes)), "small.onnx").graph.nodes.size(), 2u);
}

TEST_F(ReduceModel, LeavesAModelWhosePartsAreAllWell) {
  const ModelOnInputs small = reduce([](const ModelOnInputs& part) { return part.model.graph.nodes.size() == 40; });
  EXPECT_EQ(small.model.graph.nodes.size(), 40u);
  EXPECT_EQ(small.inputs.size(), 1u);
}

}  // namespace
}  // namespace camshaft::reduce_model_test
