#include "onnx/hoist_weights.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace camshaft::onnx::hoist_weights_test {
namespace {

TensorProto tensor(const std::string& name, int64_t size) {
  TensorProto made;
  made.name = name;
  made.dims = {size};
  made.data_type = 1;
  return made;
}

NodeProto node(const std::string& type, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  NodeProto made;
  made.op_type = type;
  made.inputs = std::move(inputs);
  made.outputs = std::move(outputs);
  return made;
}

NodeProto constant(const std::string& output, int64_t size) {
  NodeProto made = node("Constant", {}, {output});
  made.attributes.resize(1);
  made.attributes[0].name = "value";
  made.attributes[0].type = AttributeType::tensor;
  made.attributes[0].tensors = {tensor("", size)};
  return made;
}

AttributeProto body(const std::string& name, GraphProto graph) {
  AttributeProto made;
  made.name = name;
  made.type = AttributeType::graph;
  made.graphs = {std::move(graph)};
  return made;
}

std::vector<std::string> names(const std::vector<TensorProto>& tensors) {
  std::vector<std::string> all;
  for (const TensorProto& each : tensors) all.push_back(each.name);
  return all;
}

std::vector<std::string> texts(const std::vector<NodeProto>& nodes) {
  std::vector<std::string> all;
  for (const NodeProto& each : nodes)
    all.push_back((each.inputs.empty() ? "" : each.inputs[0]) + " " + each.op_type + " " + each.outputs.at(0));
  return all;
}

TEST(HoistWeights, KeepsNamesThatNothingElseHas) {
  ModelProto model;
  GraphProto then;
  then.initializers = {tensor("own", 4), tensor("both", 4)};
  then.nodes = {constant("numbers", 4), constant("one", 1), node("Add", {"own", "both"}, {"a"})};
  then.outputs = {{"a", {}}};
  GraphProto otherwise;
  otherwise.initializers = {tensor("both", 8)};
  otherwise.nodes = {constant("given", 8), node("Neg", {"both"}, {"b"})};
  otherwise.outputs = {{"given", {}}};
  NodeProto choice = node("If", {"p"}, {"y"});
  choice.name = "if";
  choice.attributes = {body("then_branch", then), body("else_branch", otherwise)};
  model.graph.initializers = {tensor("main", 2)};
  model.graph.nodes = {choice};
  hoist_weights(model);
  EXPECT_EQ(names(model.graph.initializers), (std::vector<std::string>{"main", "own", "if/then_branch/both", "numbers",
                                                                       "if/else_branch/both", "if/else_branch/given"}));
  const auto& attributes = model.graph.nodes[0].attributes;
  EXPECT_TRUE(attributes[0].graphs[0].initializers.empty());
  EXPECT_EQ(texts(attributes[0].graphs[0].nodes),
            (std::vector<std::string>{"if/then_branch/both Identity both", " Constant one", "own Add a"}));
  EXPECT_EQ(texts(attributes[1].graphs[0].nodes),
            (std::vector<std::string>{"if/else_branch/both Identity both", "if/else_branch/given Identity given",
                                      "both Neg b"}));
}

TEST(HoistWeights, LeavesWhatIsWrongToTheImporter) {
  ModelProto model;
  GraphProto loop;
  loop.inputs = {{"state", {}}};
  loop.initializers = {tensor("state", 4), tensor("twice", 4), tensor("twice", 4), tensor("", 4)};
  NodeProto over = node("Loop", {}, {"y"});
  over.attributes = {body("body", loop)};
  model.graph.nodes = {over};
  hoist_weights(model);
  EXPECT_TRUE(model.graph.initializers.empty());
  EXPECT_EQ(names(model.graph.nodes[0].attributes[0].graphs[0].initializers),
            (std::vector<std::string>{"state", "twice", "twice", ""}));
}

// The path of a body may be another weight's name already.
TEST(HoistWeights, GivesEachANameOfItsOwn) {
  ModelProto model;
  GraphProto inner;
  inner.initializers = {tensor("w", 4)};
  NodeProto choice = node("If", {"p"}, {"y"});
  choice.name = "if";
  choice.attributes = {body("then_branch", inner)};
  model.graph.initializers = {tensor("w", 2), tensor("if/then_branch/w", 2)};
  model.graph.nodes = {choice};
  hoist_weights(model);
  std::vector<std::string> all = names(model.graph.initializers);
  EXPECT_EQ(all.size(), 3U);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace camshaft::onnx::hoist_weights_test
