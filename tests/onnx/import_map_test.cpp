// ZipMap, CastMap and DictVectorizer, imported and evaluated.
#include "onnx/import_test_util.h"

namespace camshaft::onnx::import_map_test {
namespace {

using namespace testing;
using Strings = std::vector<std::string>;
using Ints = std::vector<int64_t>;

Tensor words(const Dims& dims, const Strings& values) {
  return Tensor::of<std::string>(DType::string, dims, values);
}
Tensor ints(const Ints& values) {
  return Tensor::from_ints(values);
}

GraphWriter one_node(const std::string& op_type, const TypeWriter& x, const std::vector<AttributeWriter>& attributes) {
  return GraphWriter().input("x", x).output("y", DType::f32).node(op_type, {"x"}, {"y"}, attributes, "ai.onnx.ml");
}

Graph import_ml(const GraphWriter& graph) {
  return import_bytes(ModelWriter().opset(3, "ai.onnx.ml").opset(17).graph(graph).bytes()).graph;
}

std::string refusal(const GraphWriter& graph) {
  const Error e = import_error(ModelWriter().opset(3, "ai.onnx.ml").opset(17).graph(graph).bytes());
  EXPECT_EQ(e.code(), ErrorCode::invalid_model) << e.what();
  return e.what();
}

TypeWriter map_type(DType keys, DType values) {
  return TypeWriter::map(keys, TypeWriter::tensor(values));
}

Tensor from_map(const std::string& op_type, const Tensor& map, const std::vector<AttributeWriter>& attributes) {
  const TypeWriter type = map_type(map.element(0).dtype(), map.element(1).dtype());
  return run(import_ml(one_node(op_type, type, attributes)), {map})[0];
}

TEST(ImportMap, ZipMapOfEveryBatch) {
  const Graph graph = import_ml(
      one_node("ZipMap", TypeWriter::tensor(DType::f32, {"n", 2}), {attr("classlabels_strings", {"yes", "no"})}));
  EXPECT_EQ(to_string(graph.type(graph.outputs[0])), "seq[n]<map<string, f32>>");
  const Tensor keys = words({2}, {"no", "yes"});
  EXPECT_EQ(run(graph, {floats({2, 2}, {1, 2, 3, 4})})[0],
            Tensor::sequence({Tensor::map(keys, floats({2}, {2, 1})), Tensor::map(keys, floats({2}, {4, 3}))}));
  EXPECT_EQ(run(graph, {floats({0, 2}, {})})[0], Tensor::sequence({}));
}

TEST(ImportMap, ZipMapOfAVectorIsOneMap) {
  const Graph graph =
      import_ml(one_node("ZipMap", TypeWriter::tensor(DType::f32, {3}), {attr("classlabels_int64s", Ints{3, 1, 2})}));
  EXPECT_EQ(run(graph, {floats({3}, {0.5F, 1, 2})})[0],
            Tensor::sequence({Tensor::map(ints({1, 2, 3}), floats({3}, {1, 2, 0.5F}))}));
}

TEST(ImportMap, ZipMapThatDoesNotFitIsNamed) {
  const auto zip = [](const ShapeWriter& shape, const std::vector<AttributeWriter>& attributes) {
    return refusal(one_node("ZipMap", TypeWriter::tensor(DType::f32, shape), attributes));
  };
  const AttributeWriter two = attr("classlabels_int64s", Ints{0, 1});
  EXPECT_NE(zip({"n", 3}, {two}).find("2 class labels do not fit rows of 3 values"), std::string::npos);
  EXPECT_NE(zip({1, 2, 2}, {two}).find("3 axes"), std::string::npos);
  EXPECT_NE(zip({}, {two}).find("0 axes"), std::string::npos);
  EXPECT_NE(zip({"n", 2}, {}).find("'classlabels_int64s' and 'classlabels_strings'"), std::string::npos);
  EXPECT_NE(zip({"n", 2}, {two, attr("classlabels_strings", {"a", "b"})}).find("one of the attributes"),
            std::string::npos);
}

TEST(ImportMap, TheFirstOfTheMapsIsTakenOutAgain) {
  const Graph graph =
      import_ml(GraphWriter()
                    .input("x", DType::f32, {"n", 2})
                    .output("y", DType::f32)
                    .initializer(TensorWriter("first", {}, Ints{0}))
                    .node("ZipMap", {"x"}, {"s"}, {attr("classlabels_int64s", Ints{4, 2})}, "ai.onnx.ml")
                    .node("SequenceAt", {"s", "first"}, {"m"})
                    .node("CastMap", {"m"}, {"y"}, {}, "ai.onnx.ml"));
  EXPECT_EQ(run(graph, {floats({2, 2}, {1, 2, 3, 4})})[0], floats({1, 2}, {2, 1}));
}

TEST(ImportMap, CastMapIsDenseInTheOrderOfTheKeys) {
  const Tensor map = Tensor::map(ints({5, 0, 3}), floats({3}, {1.5F, -2.75F, 8}));
  EXPECT_EQ(from_map("CastMap", map, {}), floats({1, 3}, {-2.75F, 8, 1.5F}));
  EXPECT_EQ(from_map("CastMap", map, {attr("cast_to", "TO_INT64")}), ints({-2, 8, 1}).reshaped({1, 3}));
  EXPECT_EQ(from_map("CastMap", map, {attr("cast_to", "TO_STRING")}), words({1, 3}, {"-2.75", "8", "1.5"}));
  EXPECT_EQ(from_map("CastMap", Tensor::map(ints({}), floats({0}, {})), {}), floats({1, 0}, {}));
  const Tensor texts = Tensor::map(ints({2, 1}), words({2}, {"10", "7"}));
  EXPECT_EQ(from_map("CastMap", texts, {}), floats({1, 2}, {7, 10}));
  EXPECT_EQ(from_map("CastMap", texts, {attr("cast_to", "TO_INT64")}), ints({7, 10}).reshaped({1, 2}));
  EXPECT_EQ(from_map("CastMap", texts, {attr("cast_to", "TO_STRING")}), words({1, 2}, {"7", "10"}));
  EXPECT_THROW(from_map("CastMap", Tensor::map(ints({2}), words({1}, {"x"})), {attr("cast_to", "TO_INT64")}), Error);
}

TEST(ImportMap, CastMapIsSparseWithThePlacesFromTheKeys) {
  const std::vector<AttributeWriter> sparse{attr("map_form", "SPARSE"), attr("max_map", 4)};
  // Keys that have no place are left out.
  const Tensor map = Tensor::map(ints({5, 0, 3, -1}), floats({4}, {1.5F, -2.75F, 8, 6}));
  EXPECT_EQ(from_map("CastMap", map, sparse), floats({1, 4}, {-2.75F, 0, 0, 8}));
  auto to_ints = sparse;
  to_ints.push_back(attr("cast_to", "TO_INT64"));
  const Tensor texts = Tensor::map(ints({2}), words({1}, {"7"}));
  EXPECT_EQ(from_map("CastMap", texts, to_ints), ints({0, 0, 7, 0}).reshaped({1, 4}));
  EXPECT_EQ(from_map("CastMap", Tensor::map(ints({}), floats({0}, {})), sparse), floats({1, 4}, {0, 0, 0, 0}));
}

TEST(ImportMap, CastMapThatIsMalformedIsNamed) {
  const auto cast = [](const TypeWriter& type, const std::vector<AttributeWriter>& attributes) {
    return refusal(one_node("CastMap", type, attributes));
  };
  const TypeWriter type = map_type(DType::i64, DType::f32);
  EXPECT_NE(cast(type, {attr("cast_to", "TO_MARS")}).find("TO_MARS"), std::string::npos);
  EXPECT_NE(cast(type, {attr("map_form", "LOOSE")}).find("LOOSE"), std::string::npos);
  EXPECT_NE(cast(type, {attr("map_form", "SPARSE"), attr("max_map", 0)}).find("max_map"), std::string::npos);
  EXPECT_NE(cast(map_type(DType::string, DType::f32), {}).find("keys must be i64"), std::string::npos);
  EXPECT_NE(cast(TypeWriter::tensor(DType::f32, {3}), {}).find("must be a map"), std::string::npos);
}

TEST(ImportMap, DictVectorizerLooksTheVocabularyUp) {
  const Tensor map = Tensor::map(words({3}, {"z", "a", "other"}), floats({3}, {5, 1, 9}));
  EXPECT_EQ(from_map("DictVectorizer", map, {attr("string_vocabulary", {"q", "a", "z", "a"})}),
            floats({1, 4}, {0, 1, 5, 1}));
  const Tensor names = Tensor::map(ints({4}), words({1}, {"four"}));
  EXPECT_EQ(from_map("DictVectorizer", names, {attr("int64_vocabulary", Ints{1, 4})}), words({1, 2}, {"", "four"}));
  const Tensor doubles = Tensor::map(ints({4}), Tensor::of<double>(DType::f64, {1}, {0.1}));
  EXPECT_EQ(from_map("DictVectorizer", doubles, {attr("int64_vocabulary", Ints{4})}),
            Tensor::of<double>(DType::f64, {1, 1}, {0.1}));
  EXPECT_EQ(from_map("DictVectorizer", Tensor::map(ints({}), ints({})), {attr("int64_vocabulary", Ints{4})}),
            ints({0}).reshaped({1, 1}));
}

TEST(ImportMap, DictVectorizerGivesOneAxisWhereTheModelSaysSo) {
  const Graph graph =
      import_ml(GraphWriter()
                    .input("x", map_type(DType::i64, DType::f32))
                    .output("y", DType::f32, {2})
                    .node("DictVectorizer", {"x"}, {"y"}, {attr("int64_vocabulary", Ints{1, 4})}, "ai.onnx.ml"));
  EXPECT_EQ(run(graph, {Tensor::map(ints({4}), floats({1}, {3}))})[0], floats({2}, {0, 3}));
}

TEST(ImportMap, DictVectorizerThatDoesNotFitIsNamed) {
  const auto vectorize = [](const TypeWriter& type, const std::vector<AttributeWriter>& attributes) {
    return refusal(one_node("DictVectorizer", type, attributes));
  };
  EXPECT_NE(vectorize(map_type(DType::i64, DType::f32), {}).find("string_vocabulary"), std::string::npos);
  EXPECT_NE(vectorize(map_type(DType::i64, DType::f32), {attr("string_vocabulary", {"a"})}).find("the vocabulary is"),
            std::string::npos);
  EXPECT_NE(vectorize(TypeWriter::tensor(DType::f32, {3}), {attr("string_vocabulary", {"a"})}).find("must be a map"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::onnx::import_map_test
