// Ifs whose branches differ in rank: what follows is converted for each.
#include "onnx/import_test_util.h"

namespace camshaft::onnx::testing::import_branch_cases_test {
namespace {

Tensor boolean(bool value) {
  return Tensor::scalar(DType::boolean, value);
}

Tensor number(int64_t value) {
  return Tensor::scalar(DType::i64, static_cast<double>(value));
}

// A branch that returns what it takes from around it.
GraphWriter same(const std::string& name) {
  return GraphWriter("same").output(name, DType::f32);
}

// A branch that drops the last axis.
GraphWriter squeezed(const std::string& name) {
  return GraphWriter("squeezed")
      .output("r", DType::f32)
      .initializer(TensorWriter("last", {1}, std::vector<int64_t>{-1}))
      .node("Squeeze", {name, "last"}, {"r"});
}

// x: f32[n, 1]; y is rank 1 where c is true.
GraphWriter squeezes() {
  return GraphWriter()
      .input("c", DType::boolean, {})
      .input("x", DType::f32, {"n", 1})
      .output("z", DType::f32)
      .initializer(TensorWriter("row", {1, 2}, std::vector<float>{10, 20}))
      .node("If", {"c"}, {"y"}, {attr("then_branch", squeezed("x")), attr("else_branch", same("x"))});
}

// x: f32[n, t]; y is rank 1 where t is 1.
GraphWriter squeezes_when_one() {
  return GraphWriter()
      .input("x", DType::f32, {"n", "t"})
      .output("z", DType::f32)
      .initializer(TensorWriter("one", {}, std::vector<int64_t>{1}))
      .node("Shape", {"x"}, {"sizes"})
      .node("Gather", {"sizes", "one"}, {"size"})
      .node("Equal", {"size", "one"}, {"c"})
      .node("If", {"c"}, {"y"}, {attr("then_branch", squeezed("x")), attr("else_branch", same("x"))});
}

TEST(ImportBranchCases, WhatFollowsIsInBothBranches) {
  // Without the column, x broadcasts along the rows: the two cases have other values and sizes.
  const auto graph = import_graph(
      squeezes()
          .node("Neg", {"row"}, {"other"})
          .node("Sub", {"y", "other"}, {"sum"})
          .node("ReduceSum", {"sum"}, {"z"}, {attr("axes", std::vector<int64_t>{-1}), attr("keepdims", 1)}),
      12);
  EXPECT_EQ(op_names(graph).back(), "if");
  EXPECT_EQ(type_of_output(graph), "f32[@z.0, 1]");
  const Tensor x = floats({2, 1}, {1, 2});
  expect_near(run(graph, {boolean(true), x})[0], {1, 1}, {33});
  expect_near(run(graph, {boolean(false), x})[0], {2, 1}, {32, 34});
}

TEST(ImportBranchCases, OtherBranchesOnTheConditionAreKnown) {
  const auto graph = import_graph(
      squeezes()
          .initializer(TensorWriter("at", {1}, std::vector<int64_t>{1}))
          .node("Exp", {"y"}, {"e"})
          .node("If", {"c"}, {"z"},
                {attr("then_branch", GraphWriter().output("r", DType::f32).node("Unsqueeze", {"e", "at"}, {"r"})),
                 attr("else_branch", same("e"))}),
      13);
  EXPECT_EQ(type_of_output(graph), "f32[n, 1]");
  ASSERT_EQ(graph.nodes.size(), 1U);
  EXPECT_EQ(op_names(graph.nodes[0].bodies[0]), (std::vector<std::string>{"reshape", "pointwise", "reshape"}));
  EXPECT_EQ(op_names(graph.nodes[0].bodies[1]), (std::vector<std::string>{"pointwise"}));
  expect_near(run(graph, {boolean(true), floats({2, 1}, {0, 1})})[0], {2, 1}, {1, 2.7182818});
  expect_near(run(graph, {boolean(false), floats({2, 1}, {0, 1})})[0], {2, 1}, {1, 2.7182818});
}

TEST(ImportBranchCases, ACaseThatIsNoModelIsCheckedAgainst) {
  const auto graph =
      import_graph(squeezes_when_one().node("Transpose", {"y"}, {"z"}, {attr("perm", std::vector<int64_t>{0})}), 13);
  EXPECT_EQ(type_of_output(graph), "f32[n]");
  expect_near(run(graph, {floats({2, 1}, {3, 4})})[0], {2}, {3, 4});
  EXPECT_THROW(run(graph, {floats({2, 3}, {1, 2, 3, 4, 5, 6})}), Error);

  const auto other =
      import_graph(squeezes_when_one().node("Transpose", {"y"}, {"z"}, {attr("perm", std::vector<int64_t>{1, 0})}), 13);
  EXPECT_EQ(type_of_output(other), "f32[t, n]");
  expect_near(run(other, {floats({1, 2}, {3, 4})})[0], {2, 1}, {3, 4});
  try {
    run(other, {floats({2, 1}, {3, 4})});
    ADD_FAILURE() << "the condition holds, and what it gives cannot be transposed";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_NE(std::string(e.what()).find("valid only where the condition of node 'If(y)' (If) is false"),
              std::string::npos)
        << e.what();
  }
}

TEST(ImportBranchCases, NeitherCaseIsAModel) {
  const Error error =
      import_error(ModelWriter()
                       .opset(13)
                       .graph(squeezes().node("Transpose", {"y"}, {"z"}, {attr("perm", std::vector<int64_t>{0, 2, 1})}))
                       .bytes());
  EXPECT_EQ(error.code(), ErrorCode::invalid_model);
  EXPECT_NE(std::string(error.what()).find("Transpose"), std::string::npos) << error.what();
}

TEST(ImportBranchCases, ASubgraphThatGivesEitherRank) {
  // The branch of the outer If, whose condition may be known, ends with the inner If.
  for (const bool known : {true, false}) {
    GraphWriter graph;
    if (known) {
      graph.initializer(TensorWriter("yes", {}, std::vector<int64_t>{1})).node("Cast", {"yes"}, {"d"}, {attr("to", 9)});
    } else {
      graph.input("d", DType::boolean, {});
    }
    graph.input("c", DType::boolean, {1})
        .input("x", DType::f32, {"n", 1})
        .output("z", DType::f32)
        .initializer(TensorWriter("row", {1, 2}, std::vector<float>{10, 20}))
        .node("If", {"d"}, {"y"},
              {attr("then_branch", GraphWriter()
                                       .output("p", DType::f32)
                                       .node("Neg", {"x"}, {"t"})
                                       .node("If", {"c"}, {"p"},
                                             {attr("then_branch", squeezed("t")), attr("else_branch", same("t"))})),
               attr("else_branch", same("x"))})
        // A name that the branch has used for itself.
        .node("Exp", {"row"}, {"t"})
        .node("Log", {"t"}, {"u"})
        .node("Add", {"y", "u"}, {"sum"})
        .node("ReduceSum", {"sum"}, {"z"}, {attr("axes", std::vector<int64_t>{-1}), attr("keepdims", 1)});
    const Graph imported = import_graph(graph, 12);
    const auto result = [&](bool d, bool c) {
      std::vector<Tensor> inputs{boolean(c).reshaped({1}), floats({2, 1}, {1, 2})};
      if (!known) inputs.insert(inputs.begin(), boolean(d));
      return run(imported, inputs)[0];
    };
    expect_near(result(true, true), {1, 1}, {27});
    expect_near(result(true, false), {2, 1}, {28, 26});
    if (!known) expect_near(result(false, true), {2, 1}, {32, 34});
  }
}

TEST(ImportBranchCases, InALoop) {
  const auto body = [](const std::string& carried) {
    return GraphWriter("body")
        .input("i", DType::i64, {})
        .input("go", DType::boolean, {})
        .input("v", DType::f32)
        .output("go", DType::boolean)
        .output(carried, DType::f32)
        .node("Equal", {"i", "one"}, {"second"})
        .node("If", {"second"}, {"y"}, {attr("then_branch", squeezed("v")), attr("else_branch", same("v"))})
        .node("Add", {"y", "i_f"}, {"moved"})
        .node("Cast", {"i"}, {"i_f"}, {attr("to", 1)})
        .node("Reshape", {"moved", "column"}, {"out"});
  };
  const auto graph = [&](const std::string& carried) {
    return GraphWriter()
        .input("m", DType::i64, {})
        .input("x", DType::f32, {2, 1})
        .output("z", DType::f32)
        .initializer(TensorWriter("one", {}, std::vector<int64_t>{1}))
        .initializer(TensorWriter("column", {2}, std::vector<int64_t>{2, 1}))
        .node("Loop", {"m", "", "x"}, {"z"}, {attr("body", body(carried))});
  };
  const Graph imported = import_graph(graph("out"), 13);
  EXPECT_EQ(type_of_output(imported), "f32[2, 1]");
  expect_near(run(imported, {number(3), floats({2, 1}, {5, 6})})[0], {2, 1}, {8, 9});

  const Error error = import_error(ModelWriter().opset(13).graph(graph("moved")).bytes());
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_NE(std::string(error.what()).find("decides the rank of 'moved'"), std::string::npos) << error.what();
}

TEST(ImportBranchCases, AResultOfTheModel) {
  const Error error = import_error(ModelWriter().opset(13).graph(squeezes().node("Neg", {"y"}, {"z"})).bytes());
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  const std::string message = error.what();
  EXPECT_NE(message.find("decides the rank of 'z': f32[n] in one branch and f32[n, 1] in the other"), std::string::npos)
      << message;
}

TEST(ImportBranchCases, InAFunction) {
  const auto graph =
      import_bytes(ModelWriter()
                       .opset(12)
                       .opset(1, "local")
                       .function(FunctionWriter("local", "Total")
                                     .opset(12)
                                     .input("c")
                                     .input("x")
                                     .output("total")
                                     .node("If", {"c"}, {"y"},
                                           {attr("then_branch", squeezed("x")), attr("else_branch", same("x"))})
                                     .node("ReduceSum", {"y"}, {"total"}, {attr("keepdims", 0)}))
                       .graph(GraphWriter()
                                  .input("c", DType::boolean, {})
                                  .input("x", DType::f32, {"n", 1})
                                  .output("z", DType::f32)
                                  .node("Total", {"c", "x"}, {"a"}, {}, "local")
                                  .node("Total", {"c", "x"}, {"b"}, {}, "local")
                                  .node("Add", {"a", "b"}, {"z"}))
                       .bytes())
          .graph;
  EXPECT_EQ(type_of_output(graph), "f32[]");
  expect_near(run(graph, {boolean(true), floats({2, 1}, {1, 2})})[0], {}, {6});
  expect_near(run(graph, {boolean(false), floats({2, 1}, {1, 2})})[0], {}, {6});
}

TEST(ImportBranchCases, TooManyAreRefused) {
  GraphWriter graph;
  graph.input("x", DType::f32, {"n", 1}).output("z", DType::f32);
  std::string sum = "x";
  for (int i = 0; i < 30; ++i) {
    const std::string n = std::to_string(i);
    graph.input("c" + n, DType::boolean, {})
        .node("If", {"c" + n}, {"y" + n}, {attr("then_branch", squeezed("x")), attr("else_branch", same("x"))})
        .node("Sub", {sum, "y" + n}, {"s" + n});
    sum = "s" + n;
  }
  graph.node("ReduceSum", {sum}, {"z"}, {attr("keepdims", 0)});
  const Error error = import_error(ModelWriter().opset(12).graph(graph).bytes());
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_NE(std::string(error.what()).find("too many branches"), std::string::npos) << error.what();
}

}  // namespace
}  // namespace camshaft::onnx::testing::import_branch_cases_test
