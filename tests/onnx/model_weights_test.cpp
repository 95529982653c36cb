#include "onnx/model_weights.h"

#include <gtest/gtest.h>

namespace camshaft::onnx::model_weights_test {
namespace {

constexpr int32_t f32 = 1, i64 = 7;

AttributeProto value_of(int32_t data_type, std::vector<int64_t> dims) {
  AttributeProto value;
  value.name = "value";
  value.type = AttributeType::tensor;
  value.tensors.resize(1);
  value.tensors[0].data_type = data_type;
  value.tensors[0].dims = std::move(dims);
  return value;
}

NodeProto constant(const std::string& output, std::vector<AttributeProto> attributes) {
  NodeProto node;
  node.op_type = "Constant";
  node.outputs = {output};
  node.attributes = std::move(attributes);
  return node;
}

std::vector<std::string> names_of(const ModelProto& model) {
  std::vector<std::string> names;
  for_each_weight(model, [&](const std::string& name, const TensorProto& tensor) {
    EXPECT_FALSE(tensor.dims.empty());
    names.push_back(name);
  });
  return names;
}

TEST(ModelWeights, InitializersAndConstants) {
  ModelProto model;
  model.graph.initializers.resize(1);
  model.graph.initializers[0].name = "initializer";
  model.graph.initializers[0].dims = {2};
  NodeProto of_others = constant("of_others", {value_of(f32, {4})});
  of_others.domain = "others";
  NodeProto identity = constant("identity", {value_of(f32, {4})});
  identity.op_type = "Identity";
  model.graph.nodes = {constant("weights", {value_of(f32, {4})}),
                       constant("single", {value_of(f32, {1})}),
                       constant("shape", {value_of(i64, {4})}),
                       constant("many", {value_of(i64, {1 << 20})}),
                       constant("empty", {value_of(f32, {0, 4})}),
                       constant("", {value_of(f32, {4})}),
                       std::move(of_others),
                       std::move(identity)};
  EXPECT_EQ(names_of(model), (std::vector<std::string>{"initializer", "weights", "many"}));
}

// Files may have any bytes, and are read before their nodes are checked.
TEST(ModelWeights, OfDamagedNodes) {
  AttributeProto number = value_of(f32, {4});
  number.type = AttributeType::int_;
  number.tensors.clear();
  AttributeProto reference = value_of(f32, {4});
  reference.tensors.clear();
  reference.ref_attr_name = "of_a_function";
  ModelProto model;
  model.graph.nodes = {constant("twice", {value_of(f32, {4}), number}), constant("number", {number}),
                       constant("reference", {reference}), constant("nothing", {})};
  EXPECT_EQ(names_of(model), std::vector<std::string>{"twice"});
}

}  // namespace
}  // namespace camshaft::onnx::model_weights_test
