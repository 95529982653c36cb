#include "onnx/proto_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>

#include "onnx/model_writer.h"
#include "onnx/proto_reader.h"

namespace camshaft::onnx::proto_writer_test {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the writers are this file's language

ModelProto read(const std::string& bytes) {
  return read_model(std::as_bytes(std::span(bytes)), "model.onnx");
}

// Of a class, so that each function sees all others.
struct Same {
  template <class T>
  static bool all_equal(const std::vector<T>& a, const std::vector<T>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) { return equal(x, y); });
  }

  static bool equal(const TensorProto& a, const TensorProto& b) {
    const auto external = [](const TensorProto& t) {
      const ExternalData e = t.external.value_or(ExternalData{});
      return std::tuple(t.external.has_value(), e.location, e.offset, e.length);
    };
    return a.name == b.name && a.dims == b.dims && a.data_type == b.data_type && a.segmented == b.segmented &&
           std::ranges::equal(a.raw_data, b.raw_data) && a.float_data == b.float_data &&
           a.double_data == b.double_data && a.int32_data == b.int32_data && a.int64_data == b.int64_data &&
           a.uint64_data == b.uint64_data && a.string_data == b.string_data && external(a) == external(b);
  }

  static bool equal(const SparseTensorProto& a, const SparseTensorProto& b) {
    return equal(a.values, b.values) && equal(a.indices, b.indices) && a.dims == b.dims;
  }

  static bool equal(const DimensionProto& a, const DimensionProto& b) {
    return a.value == b.value && a.param == b.param;
  }

  static bool equal(const TypeProto& a, const TypeProto& b) {
    return a.kind == b.kind && a.elem_type == b.elem_type && a.key_type == b.key_type &&
           a.shape.has_value() == b.shape.has_value() && (!a.shape || all_equal(*a.shape, *b.shape)) &&
           all_equal(a.element, b.element);
  }

  static bool equal(const ValueInfoProto& a, const ValueInfoProto& b) {
    return a.name == b.name && equal(a.type, b.type);
  }

  static bool equal(const AttributeProto& a, const AttributeProto& b) {
    return a.name == b.name && a.type == b.type && a.ref_attr_name == b.ref_attr_name && a.f == b.f && a.i == b.i &&
           a.s == b.s && a.floats == b.floats && a.ints == b.ints && a.strings == b.strings &&
           all_equal(a.tensors, b.tensors) && all_equal(a.graphs, b.graphs) &&
           all_equal(a.sparse_tensors, b.sparse_tensors) && all_equal(a.type_protos, b.type_protos);
  }

  static bool equal(const NodeProto& a, const NodeProto& b) {
    return a.name == b.name && a.op_type == b.op_type && a.domain == b.domain && a.overload == b.overload &&
           a.inputs == b.inputs && a.outputs == b.outputs && all_equal(a.attributes, b.attributes);
  }

  static bool equal(const GraphProto& a, const GraphProto& b) {
    return a.name == b.name && all_equal(a.nodes, b.nodes) && all_equal(a.initializers, b.initializers) &&
           all_equal(a.sparse_initializers, b.sparse_initializers) && all_equal(a.inputs, b.inputs) &&
           all_equal(a.outputs, b.outputs) && all_equal(a.value_infos, b.value_infos) && a.metadata == b.metadata;
  }

  static bool equal(const FunctionProto& a, const FunctionProto& b) {
    return a.name == b.name && a.domain == b.domain && a.overload == b.overload && a.inputs == b.inputs &&
           a.outputs == b.outputs && a.attributes == b.attributes &&
           all_equal(a.default_attributes, b.default_attributes) && all_equal(a.nodes, b.nodes) &&
           all_equal(a.value_infos, b.value_infos) && a.opsets == b.opsets && a.metadata == b.metadata;
  }

  static bool equal(const ModelProto& a, const ModelProto& b) {
    return a.ir_version == b.ir_version && a.producer_name == b.producer_name &&
           a.producer_version == b.producer_version && a.domain == b.domain && a.model_version == b.model_version &&
           a.opsets == b.opsets && a.metadata == b.metadata && equal(a.graph, b.graph) &&
           all_equal(a.functions, b.functions);
  }
};

/// Every field that the structs have, each with a value that is not its default.
std::string full_model() {
  const GraphWriter branch = GraphWriter("branch").output("b", DType::f32, {1}).node("Identity", {"x"}, {"b"});
  const SparseTensorWriter sparse(TensorWriter("sp", {1}, std::vector<float>{5}),
                                  TensorWriter("", {1}, std::vector<int64_t>{2}), {4});
  const auto typed = [](const std::string& name, DType dtype) { return TensorWriter(name, {2}, dtype); };
  const auto list = [](const std::string& name, AttributeType type, uint32_t field, const std::string& message) {
    return AttributeWriter(name, type).raw(field, message).raw(field, message);
  };
  const std::vector<AttributeWriter> attributes = {
      attr("strides", {2, -1}),
      attr("alpha", 0.5),
      attr("auto_pad", "SAME_UPPER"),
      attr("group", -3),
      attr("zero", 0),
      attr("nothing", ""),
      attr("scales", {1.5, 2.5}),
      attr("keys", {"a", ""}),
      attr("then_branch", branch),
      attr("value", TensorWriter("", {}, std::vector<int64_t>{7})),
      attr("type", TypeWriter::tensor(DType::f64)),
      attr("sparse", sparse),
      attr("no_ints", std::vector<int64_t>{}),
      list("tensors", AttributeType::tensors, 10, TensorWriter("t", {1}, std::vector<float>{5}).message()),
      list("graphs", AttributeType::graphs, 11, branch.message()),
      list("types", AttributeType::type_protos, 15, TypeWriter::tensor(DType::i8, {"n"}).message()),
      list("sparse_tensors", AttributeType::sparse_tensors, 23, sparse.message()),
  };
  return ModelWriter(10)
      .producer("test")
      .raw(3, std::string("1.2"))
      .raw(4, std::string("org.example"))
      .raw(5, int64_t{-12})
      .opset(17)
      .opset(3, "ai.onnx.ml")
      .metadata("author", "nobody")
      .metadata("empty", "")
      .graph(
          GraphWriter("main")
              .input("x", DType::f32, {"batch", 3, any_dim, 0})
              .input("any_rank", DType::u16)
              .input("scalar", DType::u16, ShapeWriter{})
              .input("untyped", TypeWriter())
              .input("s", TypeWriter::sequence(TypeWriter::tensor(DType::i64)))
              .input("m", TypeWriter::map(DType::string, TypeWriter::tensor(DType::f32, {2})))
              .input("o", TypeWriter::optional(TypeWriter::sequence(TypeWriter::tensor(DType::u8, {}))))
              .input("sparse", TypeWriter::sparse_tensor(DType::f32, {2, 3}))
              .output("y", DType::f16, {"batch", 4})
              .value_info("h", DType::boolean)
              .initializer(TensorWriter("w", {2, 2}, std::vector<float>{1, 2, 3, 4}))
              .initializer(typed("f", DType::f32).float_data({1, -0.0F}))
              .initializer(typed("d", DType::f64).double_data({1e300, -2}))
              .initializer(typed("i", DType::i32).int32_data({-1, 300}))
              .initializer(typed("l", DType::i64).int64_data({-1, INT64_MAX}))
              .initializer(typed("u", DType::u64).uint64_data({0, UINT64_MAX}))
              .initializer(typed("t", DType::string).string_data({"", std::string("a\0b", 3)}))
              .initializer(typed("cut", DType::f32).raw(3, std::string()))
              .initializer(typed("e", DType::f32).external({{"location", "e.bin"}}))
              .initializer(typed("e2", DType::f32).external({{"location", "e.bin"}, {"offset", "16"}, {"length", "8"}}))
              .sparse_initializer(sparse)
              .node("Conv", {"x", "w", ""}, {"h", "", "i"}, attributes, "org.example", "conv_1")
              .node(NodeWriter("Twice", {}, {"y"}).raw(8, std::string("f32")))
              .metadata("k", "v"))
      .function(
          FunctionWriter("local", "Twice")
              .input("a")
              .output("b")
              .attribute("alpha")
              .default_attribute(attr("beta", 2))
              .opset(16)
              .overload("f32")
              .raw(12, TypeWriter().raw(1, std::string("c")).raw(2, TypeWriter::tensor(DType::f32).message()).message())
              .node("Elu", {"a"}, {"b"}, {attr_ref("alpha", "alpha", AttributeType::float_)}))
      .bytes();
}

TEST(ProtoWriter, EveryFieldComesBack) {
  const std::string bytes = full_model();
  const ModelProto model = read(bytes);
  const std::string written = model_bytes(model);
  EXPECT_TRUE(Same::equal(read(written), model));
  EXPECT_EQ(model_bytes(read(written)), written);
}

TEST(ProtoWriter, AChangedModelIsAnother) {
  const std::string bytes = full_model();
  const ModelProto model = read(bytes);
  const auto changed = [&](const std::function<void(ModelProto&)>& change) {
    ModelProto other = model;
    change(other);
    const std::string written = model_bytes(other);
    const ModelProto back = read(written);
    return Same::equal(back, other) && !Same::equal(back, model);
  };
  EXPECT_TRUE(changed([](ModelProto& m) { m.graph.nodes[0].inputs[1] = "else"; }));
  EXPECT_TRUE(changed([](ModelProto& m) { m.graph.nodes.pop_back(); }));
  EXPECT_TRUE(changed([](ModelProto& m) { m.graph.nodes[0].attributes[0].ints.assign(1000, -1); }));
  EXPECT_TRUE(changed([](ModelProto& m) { m.graph.initializers[0].name = std::string(200000, 'w'); }));
  const std::vector<float> data(100, 0.5F);
  EXPECT_TRUE(changed([&](ModelProto& m) { m.graph.initializers[0].raw_data = std::as_bytes(std::span(data)); }));
}

/// The standard's own models, as protobuf wrote them. None when the folder is missing.
std::vector<std::filesystem::path> node_tests() {
  const std::filesystem::path libraries = std::filesystem::path(CAMSHAFT_SOURCE_FOLDER) / ".venv" / "lib";
  std::vector<std::filesystem::path> models;
  std::error_code missing;
  for (const auto& python : std::filesystem::directory_iterator(libraries, missing))
    for (const auto& test :
         std::filesystem::directory_iterator(python.path() / "site-packages/onnx/backend/test/data/node", missing))
      models.push_back(test.path() / "model.onnx");
  std::sort(models.begin(), models.end());
  return models;
}

TEST(ProtoWriter, ModelsOfTheStandardComeBackByteForByte) {
  const auto models = node_tests();
  ASSERT_GT(models.size(), 1000U) << "the ONNX node tests are missing from .venv: run scripts/setup.sh";
  int compared = 0;
  for (size_t i = 0; i < models.size(); i += 20) {
    std::ifstream in(models[i], std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    const ModelProto model = read(bytes);
    const std::string written = model_bytes(model);
    EXPECT_TRUE(Same::equal(read(written), model)) << models[i];
    // Some spell out that a node's domain (field 7, of length 0) is the default one, which nobody keeps.
    if (bytes.find(std::string("\x3a\0", 2)) != std::string::npos) continue;
    EXPECT_EQ(bytes, written) << models[i];
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

}  // namespace
}  // namespace camshaft::onnx::proto_writer_test
