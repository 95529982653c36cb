// Files as exporters and people leave them behind.
#include <cmath>
#include <fstream>

#include "base/temporary_folder.h"
#include "import_test_util.h"

namespace camshaft::onnx::testing::import_odd_files_test {
namespace {

using Names = std::vector<std::string>;

GraphWriter plain() {
  return GraphWriter().input("x", DType::f32, {2}).output("y", DType::f32, {2});
}

bool mentions(const Error& e, const std::string& text) {
  return std::string(e.what()).find(text) != std::string::npos;
}

TEST(OddFiles, DimsWithoutANameOfTheirOwnAreApart) {
  for (const char* none : {"?", "-1", "None", "@y.0", ""}) {
    GraphWriter graph;
    graph.input("x", DType::f32, {none, none}).output("y", DType::f32).node("Relu", {"x"}, {"y"});
    const Graph g = import_graph(graph, 17);
    EXPECT_EQ(run(g, {Tensor(DType::f32, {2, 3})})[0].dims(), (Dims{2, 3})) << none;
  }
  GraphWriter graph;
  graph.input("x", DType::f32, {-1, 0}).output("y", DType::f32).node("Relu", {"x"}, {"y"});
  const Graph g = import_graph(graph, 17);
  EXPECT_EQ(type_of_output(g), "f32[x.0, x.1]");
  EXPECT_EQ(run(g, {Tensor(DType::f32, {4, 5})})[0].dims(), (Dims{4, 5}));
  EXPECT_EQ(run(g, {Tensor(DType::f32, {4, 0})})[0].dims(), (Dims{4, 0}));
}

TEST(OddFiles, DimsMayHaveAnyName) {
  for (const char* name : {"batch size", "past + 1", "floor(h/2)", "Länge", "a'b", "2*n"}) {
    GraphWriter graph;
    graph.input("x", DType::f32, {name, 2})
        .output("y", DType::f32)
        .node("Concat", {"x", "x"}, {"y"}, {attr("axis", 0)});
    const Graph g = import_graph(graph, 17);
    const Dim rows = g.shape(g.outputs[0])[0];
    EXPECT_EQ(Dim::parse(rows.str()), rows) << name;
    EXPECT_EQ(run(g, {Tensor(DType::f32, {3, 2})})[0].dims(), (Dims{6, 2})) << name;
  }
}

TEST(OddFiles, WrongDeclaredShapesAreNotTrusted) {
  GraphWriter graph;
  graph.input("x", DType::f32, {2, 3}).output("y", DType::f32, {7}).value_info("t", DType::f32, {1, 1, 1});
  graph.value_info("nobody", DType::f32, {1}).node("Relu", {"x"}, {"t"}).node("Transpose", {"t"}, {"y"});
  EXPECT_EQ(type_of_output(import_graph(graph, 17)), "f32[3, 2]");
}

TEST(OddFiles, NamesMayBeAnything) {
  const std::string odd = "a/b c:ä\n\"'%", other = "0";
  GraphWriter graph;
  graph.input(odd, DType::f32, {2}).output(other, DType::f32);
  graph.initializer(TensorWriter("w w", {2}, std::vector<float>{1, 2}));
  graph.node("Add", {odd, "w w"}, {"t/ü"}, {}, "", "same name").node("Relu", {"t/ü"}, {other}, {}, "", "same name");
  const Graph g = import_graph(graph, 17);
  EXPECT_EQ(g.value(g.inputs[0]).name, odd);
  EXPECT_EQ(g.output_names, Names{other});
  expect_near(run(g, {floats({2}, {-5, 1})})[0], {2}, {0, 3});
}

TEST(OddFiles, ConstantsByTheHundredAndUnsortedNodes) {
  GraphWriter graph = plain();
  for (int i = 300; i-- > 0;)
    graph.node("Add", {i == 0 ? "x" : "t" + std::to_string(i), "c" + std::to_string(i)},
               {i == 299 ? "y" : "t" + std::to_string(i + 1)});
  for (int i = 0; i < 300; ++i) graph.node("Constant", {}, {"c" + std::to_string(i)}, {attr("value_float", 1.0)});
  expect_near(run(import_graph(graph, 17), {floats({2}, {1, 2})})[0], {2}, {301, 302});
}

TEST(OddFiles, InitializersUnusedOrListedAsInputs) {
  GraphWriter graph = plain();
  graph.input("w", DType::f32, {2}).initializer(TensorWriter("w", {2}, std::vector<float>{3, 4}));
  graph.initializer(TensorWriter("unused", {1}, std::vector<float>{0})).node("Mul", {"x", "w"}, {"y"});
  const Graph g = import_graph(graph, 17);
  ASSERT_EQ(g.inputs.size(), 1U);
  expect_near(run(g, {floats({2}, {1, 2})})[0], {2}, {3, 8});
}

TEST(OddFiles, EmptyOptionalInputsAtTheEnd) {
  GraphWriter graph = plain();
  graph.node("Clip", {"x", "", ""}, {"t"}).node("Dropout", {"t", "", ""}, {"y", ""});
  expect_near(run(import_graph(graph, 17), {floats({2}, {1, -2})})[0], {2}, {1, -2});
}

TEST(OddFiles, UnrankedInputsTakeTheRankOfTheBuild) {
  GraphWriter graph;
  graph.input("x", DType::f32).output("y", DType::f32).node("Softmax", {"x"}, {"y"});
  const std::string bytes = ModelWriter().opset(17).graph(graph).bytes();
  const Error e = import_error(bytes);
  EXPECT_EQ(e.code(), ErrorCode::unsupported);
  EXPECT_TRUE(mentions(e, "give a shape for it when building (--shapes)")) << e.what();
  ImportOptions options;
  options.shapes = {{{"x", {4, 5}}}, {{"x", {6, 7}}}};
  ImportedModel model = import_model(read_model(std::as_bytes(std::span(bytes)), "test.onnx"), options);
  EXPECT_EQ(type_of_output(model.graph), "f32[x.0, x.1]");
  options.shapes = {{{"x", {4, 5}}}, {{"x", {6, 5}}}};
  model = import_model(read_model(std::as_bytes(std::span(bytes)), "test.onnx"), options);
  EXPECT_EQ(type_of_output(model.graph), "f32[x.0, 5]");
}

TEST(OddFiles, OneNameOfSizesThatDiffer) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", "n"}).input("y", DType::f32, {"n", 3}).output("z", DType::f32);
  graph.node("Add", {"x", "y"}, {"z"});
  const std::string bytes = ModelWriter().opset(17).graph(graph).bytes();
  const auto imported = [&](ImportOptions options) {
    return import_model(read_model(std::as_bytes(std::span(bytes)), "test.onnx"), options).graph;
  };
  const auto shapes = [](const Graph& g) { return to_string(g.type(g.inputs[0])) + to_string(g.type(g.inputs[1])); };
  EXPECT_EQ(shapes(imported({})), "f32[n, n]f32[n, 3]");
  EXPECT_EQ(shapes(imported({.shapes = {{{"x", {3, 3}}, {"y", {3, 3}}}}})), "f32[3, 3]f32[3, 3]");
  EXPECT_EQ(shapes(imported({.shapes = {{{"x", {2, 3}}}}})), "f32[2, 3]f32[2, 3]");
  // The smallest shapes may agree where the largest do not.
  const Graph g = imported({.shapes = {{{"x", {1, 1}}, {"y", {1, 3}}}, {{"x", {2, 3}}, {"y", {1, 3}}}}});
  EXPECT_EQ(shapes(g), "f32[n, x.1]f32[1, 3]");
  expect_near(run(g, {floats({2, 3}, {1, 2, 3, 4, 5, 6}), floats({1, 3}, {10, 20, 30})})[0], {2, 3},
              {11, 22, 33, 14, 25, 36});
}

TEST(OddFiles, ModelsWithoutOutputsAreRefused) {
  const Error e = import_error(
      ModelWriter().opset(17).graph(GraphWriter().input("x", DType::f32, {2}).node("Relu", {"x"}, {"y"})).bytes());
  EXPECT_EQ(e.code(), ErrorCode::invalid_model);
  EXPECT_TRUE(mentions(e, "the model has no outputs")) << e.what();
}

TEST(OddFiles, HalfFloatsAsIntegersAndSparseWeights) {
  GraphWriter graph;
  graph.input("x", DType::f16, {2}).output("y", DType::f16);
  graph.initializer(TensorWriter("w", {2}, DType::f16).int32_data({0x3C00, 0xC000}));                   // 1, -2
  graph.sparse_initializer(SparseTensorWriter(TensorWriter("s", {1}, DType::f16).int32_data({0x4200}),  // 3
                                              TensorWriter("", {1}, std::vector<int64_t>{1}), {2}));
  graph.node("Mul", {"x", "w"}, {"t"}).node("Add", {"t", "s"}, {"y"});
  const Tensor one = Tensor::of<uint16_t>(DType::f16, {2}, {0x3C00, 0x3C00});
  expect_near(run(import_graph(graph, 17), {one})[0], {2}, {1, 1});
}

TEST(OddFiles, WeightsInSeveralFiles) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder.file(name), std::ios::binary) << bytes;
  };
  const float a[] = {9, 1, 2}, b[] = {10, 20};
  write("a.bin", std::string(reinterpret_cast<const char*>(a), sizeof a));
  write("b b.data", std::string(reinterpret_cast<const char*>(b), sizeof b));
  GraphWriter graph = plain();
  graph.initializer(
      TensorWriter("a", {2}, DType::f32).external({{"location", "a.bin"}, {"offset", "4"}, {"length", "8"}}));
  graph.initializer(TensorWriter("b", {2}, DType::f32).external({{"location", "b b.data"}}));
  graph.node("Mul", {"x", "a"}, {"t"}).node("Add", {"t", "b"}, {"y"});
  write("model.onnx", ModelWriter().opset(17).graph(graph).bytes());
  const ImportedModel model = import_model(folder.file("model.onnx"));
  expect_near(run(model.graph, {floats({2}, {1, 2})})[0], {2}, {11, 24});
}

TEST(OddFiles, ConvTransposeKernelThatContradictsItsWeights) {
  GraphWriter graph;
  graph.input("x", DType::f32, {1, 1, 3}).output("y", DType::f32);
  graph.initializer(TensorWriter("w", {1, 1, 2}, std::vector<float>{1, 1}));
  graph.node("ConvTranspose", {"x", "w"}, {"y"}, {attr("kernel_shape", {3})});
  const Error e = import_error(ModelWriter().opset(11).graph(graph).bytes());
  EXPECT_EQ(e.code(), ErrorCode::invalid_model);
  EXPECT_TRUE(mentions(e, "'kernel_shape' is not the shape of the weights")) << e.what();
}

// Shape → Cast → Mul → Floor → Cast → Concat → Resize, as torch writes an upsampling by a factor.
Graph upsampled(float factor, const std::string& round) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 1, "h", "w"}).output("y", DType::f32);
  graph.initializer(TensorWriter("two", {1}, std::vector<int64_t>{2}));
  graph.initializer(TensorWriter("four", {1}, std::vector<int64_t>{4}));
  graph.initializer(TensorWriter("zero", {1}, std::vector<int64_t>{0}));
  graph.initializer(TensorWriter("factor", {}, std::vector<float>{factor}));
  graph.node("Shape", {"x"}, {"s"})
      .node("Slice", {"s", "two", "four"}, {"hw"})
      .node("Slice", {"s", "zero", "two"}, {"nc"});
  graph.node("Cast", {"hw"}, {"f"}, {attr("to", 1)}).node("Mul", {"f", "factor"}, {"m"});
  graph.node(round, {"m"}, {"r"}).node("Cast", {"r"}, {"i"}, {attr("to", 7)});
  graph.node("Concat", {"nc", "i"}, {"sizes"}, {attr("axis", 0)});
  graph.node("Resize", {"x", "", "", "sizes"}, {"y"});
  return import_graph(graph, 13);
}

TEST(OddFiles, SizesThatWentThroughFloatsStaySymbolic) {
  const Graph half = upsampled(1.5F, "Floor");
  EXPECT_EQ(op_names(half), Names{"resize"});
  EXPECT_EQ(type_of_output(half), "f32[n, 1, floor_div(h, 2) + h, floor_div(w, 2) + w]");
  EXPECT_EQ(op_names(upsampled(2.0F, "Identity")), Names{"resize"});
  EXPECT_EQ(run(upsampled(0.75F, "Ceil"), {Tensor(DType::f32, {1, 1, 5, 8})})[0].dims(), (Dims{1, 1, 4, 6}));
  // What floating point rounds is left to floating point.
  const Graph tenth = upsampled(0.7F, "Floor");
  EXPECT_EQ(op_names(tenth).back(), "dynamic_resize");
  for (const int64_t h : {10, 30, 33})
    EXPECT_EQ(run(tenth, {Tensor(DType::f32, {1, 1, h, 10})})[0].dims(),
              (Dims{1, 1, static_cast<int64_t>(std::floor(static_cast<float>(h) * 0.7F)), 7}));
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_odd_files_test
