// Models as a whole: inputs, initializers, order, names, functions, errors.
#include "onnx/importer.h"

#include "base/work_scope.h"
#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::importer_test {
namespace {

using Names = std::vector<std::string>;

bool mentions(const Error& e, const std::string& text) {
  return std::string(e.what()).find(text) != std::string::npos;
}

TEST(Importer, InputsKeepNamesAndDimsBecomeSymbols) {
  const Graph g = import_graph(GraphWriter("main")
                                   .input("x", DType::f32, {"batch", 3, any_dim, "?"})
                                   .input("z", DType::f32, {"batch", 0, -1, "?"})
                                   .output("y", DType::f32)
                                   .output("w", DType::f32)
                                   .node("Relu", {"x"}, {"y"})
                                   .node("Relu", {"z"}, {"w"}),
                               17);
  EXPECT_EQ(g.name, "main");
  ASSERT_EQ(g.inputs.size(), 2U);
  EXPECT_EQ(g.value(g.inputs[0]).name, "x");
  EXPECT_EQ(to_string(g.type(g.inputs[0])), "f32[batch, 3, x.2, x.3]");
  EXPECT_EQ(to_string(g.type(g.inputs[1])), "f32[batch, z.1, z.2, z.3]");
  EXPECT_EQ(g.output_names, (Names{"y", "w"}));
  EXPECT_EQ(g.value(g.outputs[0]).name, "y");
}

TEST(Importer, AnInitializerThatIsAlsoAnInputIsAConstant) {
  const Graph g = import_graph(GraphWriter()
                                   .input("x", DType::f32, {2})
                                   .input("w", DType::f32, {2})
                                   .output("y", DType::f32)
                                   .initializer(TensorWriter("w", {2}, std::vector<float>{10, 20}))
                                   .node("Add", {"x", "w"}, {"y"}),
                               17);
  EXPECT_EQ(g.inputs.size(), 1U);
  expect_near(run(g, {floats({2}, {1, 2})})[0], {2}, {11, 22});
}

TEST(Importer, NodesComeInAnyOrderAndDeadOnesLeave) {
  const ImportedModel m = import_bytes(ModelWriter()
                                           .opset(17)
                                           .producer("exporter")
                                           .metadata("key", "value")
                                           .graph(GraphWriter()
                                                      .input("x", DType::f32, {2})
                                                      .output("y", DType::f32)
                                                      .node("Abs", {"inner"}, {"y"}, {}, "", "last")
                                                      .node("Exp", {"x"}, {"unused"})
                                                      .node("Neg", {"x"}, {"inner"}))
                                           .bytes());
  EXPECT_EQ(m.model_nodes, 3);
  EXPECT_EQ(m.opset, 17);
  EXPECT_EQ(m.producer, "exporter");
  EXPECT_EQ(m.metadata.at("key"), "value");
  ASSERT_EQ(m.graph.nodes.size(), 2U);
  EXPECT_EQ(m.graph.nodes[0].sources, Names{"Neg(inner)"});
  EXPECT_EQ(m.graph.nodes[1].sources, Names{"last"});
  expect_near(run(m.graph, {floats({2}, {-1, 2})})[0], {2}, {1, 2});
}

TEST(Importer, OutputsOfLoweredOperatorsKeepTheirNames) {
  const Graph g =
      import_graph(GraphWriter().input("x", DType::f32, {2}).output("y", DType::f32).node("Gelu", {"x"}, {"y"}), 20);
  EXPECT_EQ(g.value(g.outputs[0]).name, "y");
}

TEST(Importer, AnInputOrOneValueMayBeSeveralOutputs) {
  const Graph g = import_graph(GraphWriter()
                                   .input("x", DType::f32, {1})
                                   .output("x", DType::f32)
                                   .output("y", DType::f32)
                                   .node("Identity", {"x"}, {"y"}),
                               17);
  EXPECT_EQ(g.outputs[0], g.outputs[1]);
  EXPECT_EQ(g.output_names, (Names{"x", "y"}));
}

FunctionWriter scaled() {
  return FunctionWriter("local", "Scaled")
      .input("v")
      .output("w")
      .attribute("factor")
      .default_attribute(attr("shift", 5.0F))
      .opset(17)
      .node("Constant", {}, {"k"}, {attr_ref("value_float", "factor", AttributeType::float_)})
      .node("Constant", {}, {"s"}, {attr_ref("value_float", "shift", AttributeType::float_)})
      .node("Mul", {"v", "k"}, {"scaled"})
      .node("Add", {"scaled", "s"}, {"w"});
}

TEST(Importer, FunctionsAreInlinedWithAttributesAndInFunctions) {
  const ImportedModel m = import_bytes(
      ModelWriter()
          .opset(17)
          .opset(1, "local")
          .function(scaled())
          .function(FunctionWriter("local", "Twice")
                        .input("a")
                        .output("b")
                        .opset(1, "local")
                        .opset(17)
                        .node("Scaled", {"a"}, {"t"}, {attr("factor", 2.0F)}, "local")
                        .node("Scaled", {"t"}, {"b"}, {attr("factor", 3.0F), attr("shift", 1.0F)}, "local"))
          .graph(GraphWriter()
                     .input("x", DType::f32, {2})
                     .output("y", DType::f32)
                     .node("Twice", {"x"}, {"y"}, {}, "local", "call"))
          .bytes());
  expect_near(run(m.graph, {floats({2}, {0, 1})})[0], {2}, {16, 22});
  EXPECT_EQ(m.graph.nodes[0].sources, Names{"call/Scaled(t)/Mul(scaled)"});
}

// Functions that call functions may make a million nodes of some kilobytes.
TEST(Importer, InliningCanBeCancelled) {
  const std::string bytes =
      ModelWriter()
          .opset(17)
          .opset(1, "local")
          .function(FunctionWriter("local", "F").input("a").output("b").opset(17).node("Neg", {"a"}, {"b"}))
          .graph(GraphWriter().input("x", DType::f32, {2}).output("y", DType::f32).node("F", {"x"}, {"y"}, {}, "local"))
          .bytes();
  const Cancellation cancellation;
  const WorkScope scope(cancellation);
  cancellation.cancel();
  EXPECT_EQ(import_error(bytes).code(), ErrorCode::cancelled);
}

TEST(Importer, AFunctionThatCallsItselfIsRefused) {
  const Error e = import_error(
      ModelWriter()
          .opset(17)
          .opset(1, "local")
          .function(FunctionWriter("local", "F")
                        .input("a")
                        .output("b")
                        .opset(1, "local")
                        .node("F", {"a"}, {"b"}, {}, "local"))
          .graph(GraphWriter().input("x", DType::f32, {2}).output("y", DType::f32).node("F", {"x"}, {"y"}, {}, "local"))
          .bytes());
  EXPECT_EQ(e.code(), ErrorCode::invalid_model);
  EXPECT_TRUE(mentions(e, "'F' calls itself")) << e.what();
}

TEST(Importer, FunctionsThatDoubleWithoutEndAreRefused) {
  ModelWriter model;
  model.opset(17).opset(1, "local");
  constexpr int levels = 40;
  for (int i = 0; i < levels; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    model.function(FunctionWriter("local", "F" + std::to_string(i))
                       .input("a")
                       .output("b")
                       .opset(1, "local")
                       .node(next, {"a"}, {"t"}, {}, "local")
                       .node(next, {"t"}, {"b"}, {}, "local"));
  }
  model.function(
      FunctionWriter("local", "F" + std::to_string(levels)).input("a").output("b").opset(17).node("Neg", {"a"}, {"b"}));
  const Error e = import_error(
      model
          .graph(
              GraphWriter().input("x", DType::f32, {2}).output("y", DType::f32).node("F0", {"x"}, {"y"}, {}, "local"))
          .bytes());
  EXPECT_EQ(e.code(), ErrorCode::invalid_model);
  EXPECT_TRUE(mentions(e, "the model's functions make more than")) << e.what();
}

TEST(Importer, EveryMissingOperatorIsNamedAtOnce) {
  const Error e = import_error(ModelWriter()
                                   .opset(17)
                                   .opset(1, "com.acme")
                                   .opset(1, "local")
                                   .function(FunctionWriter("local", "F")
                                                 .input("a")
                                                 .output("b")
                                                 .opset(17)
                                                 .node("NoSuchOperator", {"a"}, {"b"}, {}, "", "inside"))
                                   .graph(GraphWriter()
                                              .input("x", DType::f32, {2})
                                              .output("y", DType::f32)
                                              .node("Frob", {"x"}, {"t"}, {}, "com.acme", "first")
                                              .node("F", {"x"}, {"u"}, {}, "local", "call")
                                              .node("Frob", {"t"}, {"y"}, {}, "com.acme", "second"))
                                   .bytes());
  EXPECT_EQ(e.code(), ErrorCode::unsupported);
  EXPECT_TRUE(mentions(e, "3 nodes use operators that Camshaft does not have")) << e.what();
  EXPECT_TRUE(mentions(e, "com.acme.Frob (nodes 'first', 'second')")) << e.what();
  EXPECT_TRUE(mentions(e, "NoSuchOperator (node 'call/inside')")) << e.what();
}

TEST(Importer, FilesArrangedForOneProcessorSayWhatToTakeInstead) {
  const Error e = import_error(ModelWriter()
                                   .opset(17)
                                   .opset(1, "com.microsoft.nchwc")
                                   .graph(GraphWriter()
                                              .input("x", DType::f32, {1, 16, 4, 4})
                                              .output("y", DType::f32)
                                              .node("ReorderInput", {"x"}, {"t"}, {}, "com.microsoft.nchwc")
                                              .node("ReorderOutput", {"t"}, {"y"}, {}, "com.microsoft.nchwc"))
                                   .bytes());
  EXPECT_EQ(e.code(), ErrorCode::unsupported);
  EXPECT_TRUE(mentions(e, "take the original model, or save the optimised one at the level ORT_ENABLE_EXTENDED"))
      << e.what();
}

TEST(Importer, EveryRefusedNodeIsNamedAtOnce) {
  const std::vector<AttributeWriter> drop{attr("keepdims", 0)};
  const Names inputs{"x", "axes"};
  const Error e = import_error(ModelWriter()
                                   .opset(15)
                                   .graph(GraphWriter()
                                              .input("x", DType::f32, {2, 3})
                                              .input("axes", DType::i64, {"n"})
                                              .output("y", DType::f32)
                                              .output("z", DType::f32)
                                              .node("ReduceSum", inputs, {"y"}, drop, "", "one")
                                              .node("Relu", {"y"}, {"after"})
                                              .node("ReduceSum", inputs, {"z"}, drop, "", "two"))
                                   .bytes());
  EXPECT_EQ(e.code(), ErrorCode::unsupported);
  EXPECT_TRUE(mentions(e, "2 nodes are not supported")) << e.what();
  EXPECT_TRUE(mentions(e, "node 'one' (ReduceSum): the number of axes is known only when running")) << e.what();
  EXPECT_TRUE(mentions(e, "node 'two' (ReduceSum)")) << e.what();
}

TEST(Importer, WrongModelsNameTheNode) {
  const auto error = [](const GraphWriter& graph) {
    return import_error(ModelWriter().opset(17).graph(graph).bytes());
  };
  const auto graph = [] { return GraphWriter().input("x", DType::f32, {2, 3}).output("y", DType::f32); };
  Error e = error(graph().node("Add", {"x", "gone"}, {"y"}, {}, "", "sum"));
  EXPECT_TRUE(mentions(e, "node 'sum' (Add) reads 'gone'")) << e.what();
  e = error(graph().node("Transpose", {"x"}, {"y"}, {attr("perm", "ab")}, "", "turn"));
  EXPECT_TRUE(mentions(e, "node 'turn' (Transpose): attribute 'perm' must be integers, it is a string")) << e.what();
  e = error(graph().node("Transpose", {"x"}, {"y"}, {attr("perm", {0, 0})}, "", "turn"));
  EXPECT_TRUE(mentions(e, "the permutation names axis 0 twice")) << e.what();
  e = error(GraphWriter()
                .input("i", DType::i64, {2})
                .output("y", DType::f32)
                .initializer(TensorWriter("depth", {1}, std::vector<int64_t>{-5}))
                .initializer(TensorWriter("values", {2}, std::vector<float>{0, 1}))
                .node("OneHot", {"i", "depth", "values"}, {"y"}, {}, "", "hot"));
  EXPECT_TRUE(mentions(e, "node 'hot' (OneHot): the depth -5 is negative")) << e.what();
  e = error(graph().node("Softmax", {"x"}, {"y"}, {attr("axis", 2)}, "", "soft"));
  EXPECT_TRUE(mentions(e, "node 'soft' (Softmax): axis 2 does not exist: the tensor has 2 axes")) << e.what();
  e = error(graph().node("MatMul", {"x", "x"}, {"y"}, {}, "", "product"));
  EXPECT_TRUE(mentions(e, "node 'product'")) << e.what();
  e = error(graph().node("Add", {"x"}, {"y"}, {}, "", "sum"));
  EXPECT_TRUE(mentions(e, "node 'sum' (Add): input 1 is missing")) << e.what();
  e = error(graph().node("Abs", {"t"}, {"y"}).node("Abs", {"y"}, {"t"}));
  EXPECT_TRUE(mentions(e, "depends on its own output")) << e.what();
  e = error(graph().node("Abs", {"x"}, {"y"}, {}, "", "n1").node("Neg", {"x"}, {"y"}, {}, "", "n2"));
  EXPECT_TRUE(mentions(e, "nodes 'n1' and 'n2' both define 'y'")) << e.what();
  e = error(graph());
  EXPECT_TRUE(mentions(e, "output 'y' is computed by no node")) << e.what();
  EXPECT_EQ(e.code(), ErrorCode::invalid_model);
}

TEST(Importer, OperatorSetsOutsideOfTheKnownOnesAreRefused) {
  const GraphWriter graph = GraphWriter().input("x", DType::f32, {2}).output("y", DType::f32).node("Abs", {"x"}, {"y"});
  EXPECT_EQ(import_error(ModelWriter().opset(0).graph(graph).bytes()).code(), ErrorCode::invalid_model);
  EXPECT_EQ(import_error(ModelWriter().opset(999).graph(graph).bytes()).code(), ErrorCode::unsupported);
  EXPECT_EQ(import_error(ModelWriter().opset(1, "com.acme").graph(graph).bytes()).code(), ErrorCode::invalid_model);
  EXPECT_EQ(import_error(ModelWriter().opset(17).graph(GraphWriter().input("x", DType::f32)).bytes()).code(),
            ErrorCode::unsupported);
}

// Of sets before 7, nodes are read whose operators mean what they mean today.
TEST(Importer, OldOperatorSetsAreReadNodeByNode) {
  const auto model = [](const GraphWriter& graph) { return ModelWriter().opset(1).graph(graph).bytes(); };
  const GraphWriter good =
      GraphWriter().input("x", DType::boolean, {2}).output("y", DType::boolean).node("Not", {"x"}, {"y"});
  const Tensor out = run(import_bytes(model(good)).graph, {Tensor::of<uint8_t>(DType::boolean, {2}, {0, 1})})[0];
  EXPECT_EQ(out, Tensor::of<uint8_t>(DType::boolean, {2}, {1, 0}));
  const Error e = import_error(model(GraphWriter()
                                         .input("x", DType::f32, {2})
                                         .output("y", DType::f32)
                                         .node("Abs", {"x"}, {"a"})
                                         .node("Reshape", {"a"}, {"y"}, {attr("shape", {2, 1})}, "", "old")));
  EXPECT_EQ(e.code(), ErrorCode::unsupported);
  EXPECT_TRUE(mentions(e, "Reshape of operator set 1 (node 'old'): Camshaft reads it from 5 on")) << e.what();
  EXPECT_FALSE(mentions(e, "Abs")) << e.what();
}

}  // namespace
}  // namespace camshaft::onnx::testing::importer_test
