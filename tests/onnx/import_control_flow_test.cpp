// If and Loop with what exporters put around and into them.
#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_control_flow_test {
namespace {

Tensor boolean(bool value) {
  return Tensor::scalar(DType::boolean, value);
}
Tensor number(int64_t value) {
  return Tensor::scalar(DType::i64, static_cast<double>(value));
}

TEST(ImportIf, CapturesOuterValuesAndInitializers) {
  const auto graph = import_graph(
      GraphWriter()
          .input("c", DType::boolean, {})
          .input("x", DType::f32, {"n", 2})
          .output("y", DType::f32)
          .initializer(TensorWriter("w", {2}, std::vector<float>{10, 20}))
          .node("Add", {"x", "x"}, {"xx"})
          .node("If", {"c"}, {"y"},
                {attr("then_branch", GraphWriter("t").output("r", DType::f32).node("Mul", {"xx", "w"}, {"r"})),
                 attr("else_branch", GraphWriter("e")
                                         .output("r", DType::f32)
                                         .initializer(TensorWriter("k", {}, std::vector<float>{1}))
                                         .node("Sub", {"x", "k"}, {"r"}))}),
      16);
  EXPECT_EQ(op_names(graph), (std::vector<std::string>{"pointwise", "if"}));
  EXPECT_EQ(type_of_output(graph), "f32[n, 2]");
  const Tensor x = floats({1, 2}, {1, 2});
  expect_near(run(graph, {boolean(true), x})[0], {1, 2}, {20, 80});
  expect_near(run(graph, {boolean(false), x})[0], {1, 2}, {0, 1});
}

TEST(ImportIf, NestedBranchesCaptureThroughEachOther) {
  const auto leaf = [](const char* op) { return GraphWriter(op).output("q", DType::f32).node(op, {"x", "z"}, {"q"}); };
  const GraphWriter middle =
      GraphWriter("m")
          .output("p", DType::f32)
          .node("Neg", {"x"}, {"z"})
          .node("If", {"d"}, {"p"}, {attr("then_branch", leaf("Add")), attr("else_branch", leaf("Mul"))});
  const auto graph = import_graph(
      GraphWriter()
          .input("c", DType::boolean, {})
          .input("d", DType::boolean, {1})
          .input("x", DType::f32, {"n"})
          .output("y", DType::f32)
          .node("If", {"c"}, {"y"},
                {attr("then_branch", middle), attr("else_branch", GraphWriter("e").output("x", DType::f32))}),
      16);
  const Tensor x = floats({2}, {2, 3}), yes = boolean(true).reshaped({1}), no = boolean(false).reshaped({1});
  EXPECT_EQ(type_of_output(graph), "f32[n]");
  expect_near(run(graph, {boolean(true), yes, x})[0], {2}, {0, 0});
  expect_near(run(graph, {boolean(true), no, x})[0], {2}, {-4, -9});
  expect_near(run(graph, {boolean(false), no, x})[0], {2}, {2, 3});
}

TEST(ImportIf, BranchesOfOtherSizes) {
  const auto slice = [](std::vector<int64_t> ends) {
    return GraphWriter("s")
        .output("r", DType::f32)
        .initializer(TensorWriter("from", {1}, std::vector<int64_t>{0}))
        .initializer(TensorWriter("to", {1}, ends))
        .node("Slice", {"x", "from", "to"}, {"r"});
  };
  const auto graph =
      import_graph(GraphWriter()
                       .input("c", DType::boolean, {})
                       .input("x", DType::f32, {5})
                       .output("z", DType::f32)
                       .node("If", {"c"}, {"y"}, {attr("then_branch", slice({3})), attr("else_branch", slice({1}))})
                       .node("Neg", {"y"}, {"z"}),
                   16);
  EXPECT_EQ(type_of_output(graph), "f32[@y.0]");
  const Tensor x = floats({5}, {1, 2, 3, 4, 5});
  expect_near(run(graph, {boolean(true), x})[0], {3}, {-1, -2, -3});
  expect_near(run(graph, {boolean(false), x})[0], {1}, {-1});
}

// Exporters ask for the rank of a tensor, and write a branch for a rank that it does not have.
TEST(ImportIf, KnownConditionsAreInlined) {
  const auto graph = import_graph(
      GraphWriter()
          .input("x", DType::f32, {"n", 1, 2})
          .output("y", DType::f32)
          .initializer(TensorWriter("one", {}, std::vector<int64_t>{1}))
          .initializer(TensorWriter("axes", {1}, std::vector<int64_t>{1}))
          .node("Shape", {"x"}, {"s"})
          .node("Gather", {"s", "one"}, {"d"})
          .node("Equal", {"d", "one"}, {"c"})
          .node("If", {"c"}, {"y"},
                {attr("then_branch", GraphWriter("t").output("r", DType::f32).node("Squeeze", {"x", "axes"}, {"r"})),
                 attr("else_branch", GraphWriter("e").output("x", DType::f32))}),
      16);
  EXPECT_EQ(op_names(graph), std::vector<std::string>{"reshape"});
  EXPECT_EQ(type_of_output(graph), "f32[n, 2]");
}

TEST(ImportIf, ShapesOfOuterValuesAreKnownInside) {
  const auto graph = import_graph(
      GraphWriter()
          .input("c", DType::boolean, {})
          .input("x", DType::f32, {"n", 4})
          .input("v", DType::f32, {4})
          .output("y", DType::f32)
          .node("Shape", {"x"}, {"s"})
          .node("If", {"c"}, {"y"},
                {attr("then_branch", GraphWriter("t").output("r", DType::f32).node("Expand", {"v", "s"}, {"r"})),
                 attr("else_branch", GraphWriter("e").output("r", DType::f32).node("Neg", {"x"}, {"r"}))}),
      16);
  EXPECT_EQ(type_of_output(graph), "f32[n, 4]");
  const auto y = run(graph, {boolean(true), floats({2, 4}, std::vector<float>(8)), floats({4}, {1, 2, 3, 4})})[0];
  expect_near(y, {2, 4}, {1, 2, 3, 4, 1, 2, 3, 4});
}

TEST(ImportIf, InFunctions) {
  const auto branch = [](const char* op) {
    return GraphWriter(op).output("r", DType::f32).node(op, {"a", "b"}, {"r"});
  };
  const auto graph =
      import_bytes(ModelWriter()
                       .opset(18)
                       .opset(1, "local")
                       .function(FunctionWriter("local", "Either")
                                     .opset(18)
                                     .input("k")
                                     .input("a")
                                     .output("o")
                                     .node("Neg", {"a"}, {"b"})
                                     .node("If", {"k"}, {"o"},
                                           {attr("then_branch", branch("Sub")), attr("else_branch", branch("Mul"))}))
                       .graph(GraphWriter()
                                  .input("c", DType::boolean, {})
                                  .input("x", DType::f32, {1})
                                  .output("y", DType::f32)
                                  .node("Either", {"c", "x"}, {"h"}, {}, "local")
                                  .node("Either", {"c", "h"}, {"y"}, {}, "local"))
                       .bytes())
          .graph;
  expect_near(run(graph, {boolean(true), floats({1}, {3})})[0], {1}, {12});
  expect_near(run(graph, {boolean(false), floats({1}, {3})})[0], {1}, {-81});
}

TEST(ImportIf, NamesWhatIsMissingInside) {
  const Error error = import_error(
      ModelWriter()
          .opset(16)
          .graph(GraphWriter()
                     .input("c", DType::boolean, {})
                     .input("x", DType::f32, {2})
                     .output("y", DType::f32)
                     .node("If", {"c"}, {"y"},
                           {attr("then_branch", GraphWriter().output("r", DType::f32).node("NoSuch", {"x"}, {"r"})),
                            attr("else_branch", GraphWriter().output("x", DType::f32))}))
          .bytes());
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_NE(std::string(error.what()).find("NoSuch"), std::string::npos) << error.what();
}

// A list that grows, as in decoders: the state's size changes, and each step's value is collected.
GraphWriter growing() {
  return GraphWriter("body")
      .input("i", DType::i64, {})
      .input("go", DType::boolean, {})
      .input("list", DType::f32)
      .output("go_out", DType::boolean)
      .output("longer", DType::f32)
      .output("step", DType::f32)
      .node("Identity", {"go"}, {"go_out"})
      .node("Cast", {"i"}, {"f"}, {attr("to", 1)})
      .node("Add", {"x", "f"}, {"step"})
      .node("Concat", {"list", "step"}, {"longer"}, {attr("axis", 0)});
}

TEST(ImportLoop, CarriedSizesMayChange) {
  const auto graph = import_graph(GraphWriter()
                                      .input("m", DType::i64, {})
                                      .input("x", DType::f32, {2})
                                      .output("all", DType::f32)
                                      .output("steps", DType::f32)
                                      .initializer(TensorWriter("empty", {0}, std::vector<float>{}))
                                      .node("Loop", {"m", "", "empty"}, {"all", "steps"}, {attr("body", growing())}),
                                  16);
  EXPECT_EQ(type_of_output(graph, 0), "f32[@all.0]");
  EXPECT_EQ(type_of_output(graph, 1), "f32[@steps.0, 2]");
  const auto out = run(graph, {number(3), floats({2}, {1, 5})});
  expect_near(out[0], {6}, {1, 5, 2, 6, 3, 7});
  expect_near(out[1], {3, 2}, {1, 5, 2, 6, 3, 7});
  const auto none = run(graph, {number(0), floats({2}, {1, 5})});
  expect_near(none[0], {0}, {});
  expect_near(none[1], {0, 2}, {});
}

TEST(ImportLoop, NestedWithABranchInside) {
  // s = 0; for i < m: for j < m: s += (i == j) ? x : 1
  const GraphWriter inner =
      GraphWriter("inner")
          .input("j", DType::i64, {})
          .input("go2", DType::boolean, {})
          .input("t", DType::f32, {1})
          .output("go2", DType::boolean)
          .output("t2", DType::f32)
          .node("Equal", {"i", "j"}, {"same"})
          .node("If", {"same"}, {"d"},
                {attr("then_branch", GraphWriter("t").output("x", DType::f32)),
                 attr("else_branch", GraphWriter("e")
                                         .output("one", DType::f32)
                                         .initializer(TensorWriter("one", {1}, std::vector<float>{1})))})
          .node("Add", {"t", "d"}, {"t2"});
  const GraphWriter outer = GraphWriter("outer")
                                .input("i", DType::i64, {})
                                .input("go", DType::boolean, {})
                                .input("s", DType::f32, {1})
                                .output("go", DType::boolean)
                                .output("s2", DType::f32)
                                .node("Loop", {"m", "", "s"}, {"s2"}, {attr("body", inner)});
  const auto graph = import_graph(GraphWriter()
                                      .input("m", DType::i64, {})
                                      .input("x", DType::f32, {1})
                                      .output("y", DType::f32)
                                      .initializer(TensorWriter("zero", {1}, std::vector<float>{0}))
                                      .node("Loop", {"m", "", "zero"}, {"y"}, {attr("body", outer)}),
                                  16);
  EXPECT_EQ(type_of_output(graph), "f32[1]");
  expect_near(run(graph, {number(3), floats({1}, {10})})[0], {1}, {36});
}

TEST(ImportLoop, RefusesWhatChangesItsRank) {
  const Error error = import_error(ModelWriter()
                                       .opset(16)
                                       .graph(GraphWriter()
                                                  .input("m", DType::i64, {})
                                                  .input("x", DType::f32, {2})
                                                  .output("y", DType::f32)
                                                  .initializer(TensorWriter("axes", {1}, std::vector<int64_t>{0}))
                                                  .node("Loop", {"m", "", "x"}, {"y"},
                                                        {attr("body", GraphWriter()
                                                                          .input("i", DType::i64, {})
                                                                          .input("go", DType::boolean, {})
                                                                          .input("v", DType::f32)
                                                                          .output("go", DType::boolean)
                                                                          .output("u", DType::f32)
                                                                          .node("Unsqueeze", {"v", "axes"}, {"u"}))}))
                                       .bytes());
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_NE(std::string(error.what()).find("begins as f32[2] and becomes f32[1, 2]"), std::string::npos)
      << error.what();
}

/// A Loop that slices x from its iteration to the next one, of the shape that its body declares.
GraphWriter slices_at_iterations(const ShapeWriter& iteration) {
  const GraphWriter body = GraphWriter("b")
                               .input("i", DType::i64, iteration)
                               .input("c", DType::boolean, iteration)
                               .output("d", DType::boolean)
                               .output("part", DType::f32)
                               .initializer(TensorWriter("one", {1}, std::vector<int64_t>{1}))
                               .node("Add", {"i", "one"}, {"next"})
                               .node("Slice", {"x", "i", "next"}, {"part"})
                               .node("Identity", {"c"}, {"d"});
  return GraphWriter()
      .input("m", DType::i64, {})
      .input("x", DType::f32, {3, 2})
      .output("y", DType::f32)
      .node("Loop", {"m", ""}, {"y"}, {attr("body", body)});
}

// As ONNX Runtime has it, the iteration is of the rank that the body declares: what the standard has as 0-D starts of a
// Slice may be a list.
TEST(ImportLoop, SlicesAtAnIterationThatIsAList) {
  const auto graph = import_graph(slices_at_iterations({1}), 16);
  const Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  expect_near(run(graph, {number(2), x})[0], {2, 1, 2}, {1, 2, 3, 4});
}

// ONNX Runtime ("Starts must be a 1-D array") refuses them, too, when it runs.
TEST(ImportLoop, RefusesStartsOfASliceThatAre0D) {
  const Error error = import_error(ModelWriter().opset(16).graph(slices_at_iterations({})).bytes());
  EXPECT_EQ(error.code(), ErrorCode::invalid_model);
  EXPECT_NE(std::string(error.what()).find("Slice(part)"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("the starts must be 1-D, not 0-D"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_control_flow_test
