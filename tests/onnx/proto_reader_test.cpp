#include "onnx/proto_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "onnx/model_writer.h"
#include "onnx/tensor_data.h"
#include "test_random.h"

namespace camshaft::onnx::proto_reader_test {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the writers are this file's language

ModelProto read(const std::string& bytes) {
  return read_model(std::as_bytes(std::span(bytes)), "model.onnx");
}

/// The message of the Error(invalid_model) that reading throws; "" when it throws none.
std::string refusal(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_model) << error.what();
    return error.what();
  }
  return {};
}

#define EXPECT_REFUSED(bytes, part)                                                    \
  do {                                                                                 \
    const std::string message = refusal(bytes);                                        \
    EXPECT_NE(message.find(part), std::string::npos) << "the message is: " << message; \
    EXPECT_EQ(message.rfind("model.onnx: ", 0), 0U) << message;                        \
  } while (false)

/// Uses every kind of message once.
std::string small_model() {
  const GraphWriter branch = GraphWriter("branch").output("b", DType::f32, {1}).node("Identity", {"x"}, {"b"});
  return ModelWriter(10)
      .producer("test")
      .opset(17)
      .opset(3, "ai.onnx.ml")
      .metadata("author", "nobody")
      .graph(GraphWriter("main")
                 .input("x", DType::f32, {"batch", 3, any_dim, -1, ""})
                 .input("s", TypeWriter::sequence(TypeWriter::tensor(DType::i64)))
                 .input("m", TypeWriter::map(DType::string, TypeWriter::tensor(DType::f32, {2})))
                 .input("o", TypeWriter::optional(TypeWriter::sequence(TypeWriter::tensor(DType::u8, {}))))
                 .output("y", DType::f16, {"batch", 4})
                 .value_info("h", DType::boolean)
                 .initializer(TensorWriter("w", {2, 2}, std::vector<float>{1, 2, 3, 4}))
                 .sparse_initializer(SparseTensorWriter(TensorWriter("sp", {1}, std::vector<float>{5}),
                                                        TensorWriter("", {1}, std::vector<int64_t>{2}), {4}))
                 .node("Conv", {"x", "w", ""}, {"h"},
                       {attr("strides", {2, 1}), attr("alpha", 0.5), attr("auto_pad", "SAME_UPPER"), attr("group", -3)},
                       "ai.onnx", "conv_1")
                 .node("If", {"h"}, {"y"},
                       {attr("then_branch", branch), attr("scales", {1.5, 2.5}), attr("keys", {"a", "bc"}),
                        attr("value", TensorWriter("", {}, std::vector<int64_t>{7})),
                        attr("type", TypeWriter::tensor(DType::f64)),
                        attr("sparse", SparseTensorWriter(TensorWriter("", {1}, std::vector<float>{5}),
                                                          TensorWriter("", {1, 1}, std::vector<int64_t>{0}), {1}))})
                 .metadata("k", "v"))
      .function(FunctionWriter("local", "Twice")
                    .input("a")
                    .output("b")
                    .attribute("alpha")
                    .default_attribute(attr("beta", 2))
                    .opset(16)
                    .overload("f32")
                    .node("Elu", {"a"}, {"b"}, {attr_ref("alpha", "alpha", AttributeType::float_)}))
      .bytes();
}

TEST(ProtoReader, ReadsModelFields) {
  const ModelProto model = read(small_model());
  EXPECT_EQ(model.file, "model.onnx");
  EXPECT_EQ(model.ir_version, 10);
  EXPECT_EQ(model.producer_name, "test");
  EXPECT_EQ(model.opsets, (OpsetImports{{"", 17}, {"ai.onnx.ml", 3}}));
  EXPECT_EQ(model.metadata, (Metadata{{"author", "nobody"}}));
  EXPECT_EQ(model.graph.name, "main");
  EXPECT_EQ(model.graph.metadata, (Metadata{{"k", "v"}}));
}

TEST(ProtoReader, ReadsTypes) {
  using Kind = TypeProto::Kind;
  const GraphProto graph = read(small_model()).graph;
  ASSERT_EQ(graph.inputs.size(), 4U);
  const TypeProto& x = graph.inputs[0].type;
  EXPECT_EQ(graph.inputs[0].name, "x");
  EXPECT_EQ(x.kind, Kind::tensor);
  EXPECT_EQ(x.elem_type, dtype_to_onnx(DType::f32));
  ASSERT_TRUE(x.shape && x.shape->size() == 5);
  EXPECT_EQ(x.shape->at(0).param, "batch");
  EXPECT_FALSE(x.shape->at(0).value);
  EXPECT_EQ(x.shape->at(1).value, 3);
  for (const size_t unknown : {2, 3, 4}) {
    EXPECT_FALSE(x.shape->at(unknown).value);
    EXPECT_TRUE(x.shape->at(unknown).param.empty());
  }
  const TypeProto& s = graph.inputs[1].type;
  EXPECT_EQ(s.kind, Kind::sequence);
  ASSERT_EQ(s.element.size(), 1U);
  EXPECT_EQ(s.element[0].elem_type, dtype_to_onnx(DType::i64));
  EXPECT_FALSE(s.element[0].shape);
  const TypeProto& m = graph.inputs[2].type;
  EXPECT_EQ(m.kind, Kind::map);
  EXPECT_EQ(m.key_type, dtype_to_onnx(DType::string));
  ASSERT_EQ(m.element.size(), 1U);
  EXPECT_EQ(m.element[0].shape->at(0).value, 2);
  const TypeProto& o = graph.inputs[3].type;
  EXPECT_EQ(o.kind, Kind::optional);
  ASSERT_EQ(o.element.size(), 1U);
  ASSERT_EQ(o.element[0].kind, Kind::sequence);
  const TypeProto& scalar = o.element[0].element.at(0);
  ASSERT_TRUE(scalar.shape);
  EXPECT_TRUE(scalar.shape->empty());
  EXPECT_EQ(graph.outputs.at(0).name, "y");
  EXPECT_EQ(graph.value_infos.at(0).name, "h");
}

TEST(ProtoReader, ReadsNodesAndAttributes) {
  const GraphProto graph = read(small_model()).graph;
  ASSERT_EQ(graph.nodes.size(), 2U);
  const NodeProto& conv = graph.nodes[0];
  EXPECT_EQ(conv.op_type, "Conv");
  EXPECT_EQ(conv.domain, "") << "ai.onnx is the default domain";
  EXPECT_EQ(conv.name, "conv_1");
  EXPECT_EQ(conv.inputs, (std::vector<std::string>{"x", "w", ""}));
  EXPECT_EQ(conv.outputs, (std::vector<std::string>{"h"}));
  EXPECT_EQ(conv.find_attribute("strides")->type, AttributeType::ints);
  EXPECT_EQ(conv.find_attribute("strides")->ints, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(conv.find_attribute("alpha")->f, 0.5F);
  EXPECT_EQ(conv.find_attribute("auto_pad")->s, "SAME_UPPER");
  EXPECT_EQ(conv.find_attribute("group")->i, -3);
  EXPECT_EQ(conv.find_attribute("pads"), nullptr);
  const NodeProto& node = graph.nodes[1];
  EXPECT_EQ(node.find_attribute("scales")->floats, (std::vector<float>{1.5F, 2.5F}));
  EXPECT_EQ(node.find_attribute("keys")->strings, (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(node.find_attribute("then_branch")->graphs.at(0).nodes.at(0).op_type, "Identity");
  EXPECT_EQ(node.find_attribute("value")->tensors.at(0).raw_data.size(), 8U);
  EXPECT_EQ(node.find_attribute("type")->type_protos.at(0).elem_type, dtype_to_onnx(DType::f64));
  EXPECT_EQ(node.find_attribute("sparse")->sparse_tensors.at(0).dims, (std::vector<int64_t>{1}));
  EXPECT_EQ(graph.sparse_initializers.at(0).values.name, "sp");
}

TEST(ProtoReader, ReadsFunctions) {
  const ModelProto model = read(small_model());
  const FunctionTable functions(model);
  NodeProto call;
  call.domain = "local", call.op_type = "Twice";
  EXPECT_EQ(functions.find(call), nullptr) << "the overload is part of the name";
  call.overload = "f32";
  const FunctionProto* function = functions.find(call);
  ASSERT_NE(function, nullptr);
  EXPECT_EQ(function->inputs, (std::vector<std::string>{"a"}));
  EXPECT_EQ(function->outputs, (std::vector<std::string>{"b"}));
  EXPECT_EQ(function->attributes, (std::vector<std::string>{"alpha"}));
  EXPECT_EQ(function->default_attributes.at(0).i, 2);
  EXPECT_EQ(function->opsets, (OpsetImports{{"", 16}}));
  const AttributeProto& alpha = function->nodes.at(0).attributes.at(0);
  EXPECT_EQ(alpha.ref_attr_name, "alpha");
  EXPECT_EQ(alpha.type, AttributeType::float_);
}

TEST(ProtoReader, WeightsAreNotCopied) {
  const std::string bytes = small_model();
  const ModelProto model = read(bytes);
  const char* raw = reinterpret_cast<const char*>(model.graph.initializers.at(0).raw_data.data());
  EXPECT_TRUE(raw >= bytes.data() && raw < bytes.data() + bytes.size());
}

TEST(ProtoReader, FieldsOfAnyOrderAndBothEncodingsOfLists) {
  // The type after the value, no type at all, and packed integers.
  const std::string packed("\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11);
  const GraphWriter graph = GraphWriter().node(
      "Op", {}, {},
      {AttributeWriter("late", AttributeType::undefined).raw(3, int64_t{4}).raw(20, int64_t{2}),
       AttributeWriter("untyped", AttributeType::undefined).raw(4, std::string("text")),
       AttributeWriter("packed", AttributeType::ints).raw(8, packed), AttributeWriter("zero", AttributeType::int_)});
  const ModelProto model = read(ModelWriter().graph(graph).opset(13).bytes());
  const NodeProto& node = model.graph.nodes.at(0);
  EXPECT_EQ(node.find_attribute("late")->i, 4);
  EXPECT_EQ(node.find_attribute("untyped")->type, AttributeType::string);
  EXPECT_EQ(node.find_attribute("packed")->ints, (std::vector<int64_t>{5, -1}));
  EXPECT_EQ(node.find_attribute("zero")->i, 0) << "proto3 writers leave zeros out";
}

TEST(ProtoReader, OldModelsWithoutOpset) {
  EXPECT_EQ(read(ModelWriter(2).graph(GraphWriter()).bytes()).opsets, (OpsetImports{{"", 1}}));
  EXPECT_REFUSED(ModelWriter(3).graph(GraphWriter()).bytes(), "opset_import");
}

TEST(ProtoReader, BothNamesOfTheDefaultDomain) {
  const auto import_twice = [](int64_t second) {
    return ModelWriter().opset(13).opset(second, "ai.onnx").graph(GraphWriter()).bytes();
  };
  EXPECT_EQ(read(import_twice(13)).opsets, (OpsetImports{{"", 13}}));
  EXPECT_REFUSED(import_twice(7), "imported twice, as version 13 and 7");
}

TEST(ProtoReader, RefusesWhatIsNoModel) {
  EXPECT_REFUSED("", "not an ONNX file: it is empty");
  EXPECT_REFUSED("hello, world", "not an ONNX file");
  EXPECT_REFUSED("<!DOCTYPE html>", "not an ONNX file");
  EXPECT_REFUSED("version https://git-lfs.github.com/spec/v1\n", "git lfs pull");
  EXPECT_REFUSED(std::string("PK\x03\x04zip"), "zip archive");
  EXPECT_REFUSED(ModelWriter().opset(1).bytes(), "no graph");
  EXPECT_REFUSED(ModelWriter(0).opset(1).graph(GraphWriter()).bytes(), "IR version");
}

TEST(ProtoReader, RefusesContradictions) {
  const auto with_node = [](const NodeWriter& node) {
    return ModelWriter().opset(1).graph(GraphWriter().node(node)).bytes();
  };
  const auto with_attribute = [&](const AttributeWriter& attribute) {
    return with_node(NodeWriter("Op", {}, {}, {attribute}));
  };
  EXPECT_REFUSED(with_node(NodeWriter("", {}, {}, {}, "", "n\n1")), "node 'n\\x0a1' has no operator type");
  EXPECT_REFUSED(with_attribute(attr("", 1)), "attribute has no name");
  EXPECT_REFUSED(with_attribute(AttributeWriter("a", AttributeType::undefined)), "neither a type nor a value");
  EXPECT_REFUSED(with_attribute(AttributeWriter("a", AttributeType::tensor)), "its value is missing");
  EXPECT_REFUSED(with_attribute(AttributeWriter("a", AttributeType::int_).float_(1)), "of another type");
  EXPECT_REFUSED(with_attribute(AttributeWriter("a", static_cast<AttributeType>(99))), "type 99");
  EXPECT_REFUSED(with_attribute(AttributeWriter("a", AttributeType::floats).raw(7, std::string(7, 'x'))),
                 "not a whole number of 4-byte elements");
  EXPECT_REFUSED(with_attribute(AttributeWriter("a", AttributeType::float_).raw(2, int64_t{1})), "holds a varint");
  const auto with_initializer = [](const TensorWriter& tensor) {
    return ModelWriter().opset(1).graph(GraphWriter().initializer(tensor)).bytes();
  };
  EXPECT_REFUSED(with_initializer(TensorWriter("", {}, std::vector<float>{1})), "initializer has no name");
  EXPECT_REFUSED(with_initializer(TensorWriter("w", {}, DType::f32).external({})), "without a location");
  EXPECT_REFUSED(with_initializer(TensorWriter("w", {}, DType::f32).external({{"location", "a"}, {"offset", "-1"}})),
                 "offset is '-1'");
}

TEST(ProtoReader, RefusesDeepNesting) {
  const auto nested_graphs = [](int depth) {
    GraphWriter graph("g");
    for (int i = 1; i < depth; ++i) graph = GraphWriter("g").node("If", {}, {}, {attr("then_branch", graph)});
    return ModelWriter().opset(1).graph(graph).bytes();
  };
  EXPECT_EQ(refusal(nested_graphs(kMaxNesting)), "");
  EXPECT_REFUSED(nested_graphs(kMaxNesting + 1), "nested deeper than 64");
  EXPECT_REFUSED(nested_graphs(2000), "nested deeper than 64");
  TypeWriter type = TypeWriter::tensor(DType::f32);
  for (int i = 0; i < 2000; ++i) type = TypeWriter::optional(type);
  EXPECT_REFUSED(ModelWriter().opset(1).graph(GraphWriter().input("x", type)).bytes(), "nested deeper than 64");
}

// Cut anywhere, a file is refused; only where a whole field of ModelProto ends can what is left be a smaller model.
TEST(ProtoReader, TruncationAtEveryByte) {
  const std::string whole = small_model();
  ASSERT_EQ(refusal(whole), "");
  size_t accepted = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::string message = refusal(whole.substr(0, size));
    accepted += message.empty();
    EXPECT_TRUE(message.empty() || message.find("truncated at byte " + std::to_string(size)) != std::string::npos ||
                message.find("no graph") != std::string::npos || message.find("not an ONNX file") != std::string::npos)
        << size << ": " << message;
  }
  EXPECT_EQ(accepted, 1U) << "only the cut just before the function, the last field, leaves a model";
}

/// Reads the model and all its tensors; any Error is fine, anything else is not.
bool survives(const std::string& bytes) {
  try {
    const ModelProto model = read(bytes);
    TensorReader reader(model);
    for (const TensorProto& tensor : model.graph.initializers) reader.read(tensor);
    for (const SparseTensorProto& tensor : model.graph.sparse_initializers) reader.read(tensor);
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::invalid_model || error.code() == ErrorCode::unsupported) << error.what();
    return false;
  }
}

TEST(ProtoReader, RandomDamage) {
  Random random = test_random();
  const std::string whole = small_model();
  int read_anyway = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (int64_t flips = random.integer(1, 4); flips > 0; --flips) {
      char& byte = damaged[random.next() % damaged.size()];
      byte = static_cast<char>(random.next() % 2 != 0 ? byte ^ (1 << random.next() % 8)
                                                      : static_cast<int>(random.next() % 256));
    }
    if (random.next() % 8 == 0) damaged.erase(random.next() % damaged.size(), 1 + random.next() % 8);
    read_anyway += survives(damaged) ? 1 : 0;
  }
  // Flips in names and weights leave a model, flips in structure mostly do not: both sorts must have been met.
  EXPECT_GT(read_anyway, 100);
  EXPECT_LT(read_anyway, 19900);
}

// protozero's own reader keeps lengths in 32 bits, so a graph of 4 GB or more needs ours. The file is sparse: no weight
// is read, and reading takes as long as for a small one.
TEST(ProtoReader, FilesAboveFourGigabytes) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "camshaft_sparse_model.onnx";
  constexpr uint64_t kWeights = (uint64_t{4} << 30) + 4096;
  const auto field = [](uint32_t number, uint64_t length) {
    std::string out;
    protozero::add_varint_to_buffer(&out, number << 3 | 2);
    protozero::add_varint_to_buffer(&out, length);
    return out;
  };
  const std::string tensor =
      TensorWriter("w", {static_cast<int64_t>(kWeights)}, DType::u8).message() + field(9, kWeights);
  const std::string after = GraphWriter("big").node("Identity", {"w"}, {"y"}).message();
  const std::string graph = field(5, tensor.size() + kWeights) + tensor;
  const std::string head = ModelWriter().opset(13).bytes() + field(7, graph.size() + kWeights + after.size()) + graph;
  {
    std::ofstream file(path, std::ios::binary);
    file << head;
    file.seekp(static_cast<std::streamoff>(head.size() + kWeights - 1));
    file << 'Z' << after;
    if (!file.flush()) {
      std::filesystem::remove(path);
      GTEST_SKIP() << "no sparse file of 4 GB can be written to " << path;
    }
  }
  {
    const ModelProto model = read_model(path);
    EXPECT_EQ(model.graph.nodes.size(), 1U);
    const TensorData data = TensorReader(model).read(model.graph.initializers.at(0));
    ASSERT_EQ(data.bytes.size(), kWeights);
    EXPECT_EQ(data.bytes.back(), std::byte{'Z'});
  }
  // Cut in the middle of the weights.
  std::filesystem::resize_file(path, uint64_t{4} << 30);
  EXPECT_THROW(
      try { read_model(path); } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("truncated at byte 4294967296"), std::string::npos) << error.what();
        throw;
      },
      Error);
  std::filesystem::remove(path);
}

TEST(ProtoReader, MissingFile) {
  EXPECT_THROW(
      try { read_model("/nonexistent/model.onnx"); } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io);
        throw;
      },
      Error);
}

}  // namespace
}  // namespace camshaft::onnx::proto_reader_test
